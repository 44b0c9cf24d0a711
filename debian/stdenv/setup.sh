# $stdenv/setup: the phases of a build and what they use, after nixpkgs' stdenv: the same names
# with the same meaning, for the part of it that the packages of a small project need.
#
# Attributes come as environment variables, lists as words; or, with __structuredAttrs, as shell
# variables and arrays. Whatever reads a list goes through concatTo, which takes either.
set -eu -o pipefail
shopt -s inherit_errexit

###### Reading attributes

# isArray NAME
isArray() { [[ $(declare -p "$1" 2>/dev/null) == "declare -a"* ]]; }

# concatTo TARGET NAME[=DEFAULT]…: append the elements of the lists to the array TARGET
concatTo() {
    local -n _target=$1
    shift
    local _name _default
    for _name; do
        _default=
        if [[ $_name == *=* ]]; then
            _default=${_name#*=}
            _name=${_name%%=*}
        fi
        if isArray "$_name"; then
            local -n _list=$_name
            _target+=("${_list[@]}")
            unset -n _list
        else
            # shellcheck disable=SC2206 # a list of words
            _target+=(${!_name-$_default})
        fi
    done
}

# appendToVar NAME VALUE…, prependToVar NAME VALUE…
appendToVar() {
    local _name=$1
    shift
    if isArray "$_name"; then
        local -n _list=$_name
        _list+=("$@")
    else
        printf -v "$_name" '%s' "${!_name:-}${!_name:+ }$*"
    fi
}
prependToVar() {
    local _name=$1
    shift
    if isArray "$_name"; then
        local -n _list=$_name
        _list=("$@" "${_list[@]}")
    else
        printf -v "$_name" '%s' "$*${!_name:+ }${!_name:-}"
    fi
}

if [[ -n ${__structuredAttrs:-} || -e ${NIX_ATTRS_SH_FILE:-} ]]; then
    __structuredAttrs=1
    for _name in "${!outputs[@]}"; do export "$_name=${outputs[$_name]}"; done
    if [[ $(declare -p env 2>/dev/null) == "declare -A"* ]]; then
        for _name in "${!env[@]}"; do export "$_name=${env[$_name]}"; done
    fi
fi
: "${out:=}" "${outputs=out}"

getAllOutputNames() {
    if [[ -n ${__structuredAttrs:-} ]]; then
        echo "${!outputs[*]}"
    else
        echo "$outputs"
    fi
}

###### Messages

nixLog() { echo "$*" >&2; }
nixErrorLog() { nixLog "$@"; }
nixWarnLog() { nixLog "$@"; }
nixNoticeLog() { nixLog "$@"; }
nixInfoLog() { ((${NIX_DEBUG:-0} < 3)) || nixLog "$@"; }
echoCmd() {
    printf '%s:' "$1"
    shift
    printf ' %q' "$@"
    echo
}
showPhaseHeader() { echo "Running phase: $1"; }
showPhaseFooter() {
    local phase=$1 seconds=$(($3 - $2))
    ((seconds < 30)) || echo "$phase completed in $((seconds / 60)) minutes $((seconds % 60)) seconds"
}

###### Hooks

# _callImplicitHook NAME ARGS…: the function of that name, else the text in the variable
_callImplicitHook() {
    local _hook=$1
    shift
    if declare -F "$_hook" >/dev/null; then
        "$_hook" "$@"
    elif [[ -n ${!_hook:-} ]]; then
        eval "${!_hook}"
    fi
}
runHook() {
    local _hook=$1 _entry
    shift
    local -n _entries="${_hook%Hook}Hooks"
    for _entry in "${_entries[@]}"; do
        if declare -F "$_entry" >/dev/null; then "$_entry" "$@"; else eval "$_entry"; fi
    done
    unset -n _entries
    _callImplicitHook "$_hook" "$@"
}
# runOneHook NAME ARGS…: the first that succeeds
runOneHook() {
    local _hook=$1 _entry
    shift
    local -n _entries="${_hook%Hook}Hooks"
    for _entry in "${_entries[@]}"; do
        if "$_entry" "$@"; then return 0; fi
    done
    return 1
}

###### Small helpers

addToSearchPathWithCustomDelimiter() {
    if [[ -d $3 ]]; then export "$2=${!2:+${!2}$1}$3"; fi
}
addToSearchPath() { addToSearchPathWithCustomDelimiter : "$@"; }
stripHash() {
    local name=${1##*/}
    if [[ $name =~ ^[a-z0-9]{32}- ]]; then name=${name:33}; fi
    echo "$name"
}
_magic() {
    local magic=
    LC_ALL=C IFS= read -r -n "${#2}" magic <"$1" 2>/dev/null || true
    [[ $magic == "$2" ]]
}
isELF() { _magic "$1" $'\x7fELF'; }
isScript() { _magic "$1" '#!'; }

###### Text replacement

# substitute IN OUT [--replace-fail OLD NEW] [--subst-var NAME] [--subst-var-by NAME NEW]…
substitute() {
    local input=$1 output=$2 text kind old new
    shift 2
    if [[ ! -f $input ]]; then
        echo "substitute(): ERROR: file '$input' does not exist" >&2
        return 1
    fi
    IFS= read -r -d '' text <"$input" || true
    while (($#)); do
        kind=$1
        case $kind in
            --replace | --replace-fail | --replace-warn | --replace-quiet)
                old=$2 new=$3
                shift 3
                ;;
            --subst-var)
                old=@$2@ new=${!2}
                kind=--replace-quiet
                shift 2
                ;;
            --subst-var-by)
                old=@$2@ new=$3
                kind=--replace-quiet
                shift 3
                ;;
            *)
                echo "substitute(): ERROR: Invalid command line argument: $1" >&2
                return 1
                ;;
        esac
        if [[ $text != *"$old"* ]]; then
            case $kind in
                --replace-fail)
                    echo "substitute(): ERROR: pattern $old doesn't match anything in file '$input'" >&2
                    return 1
                    ;;
                --replace | --replace-warn)
                    echo "substitute(): WARNING: pattern $old doesn't match anything in file '$input'" >&2
                    ;;
            esac
        fi
        text=${text//"$old"/"$new"}
    done
    # a file of its own first: IN and OUT may be one, and OUT keeps its mode
    printf '%s' "$text" >"$output.substituted"
    [[ ! -e $output ]] || chmod --reference="$output" "$output.substituted"
    mv "$output.substituted" "$output"
}
substituteInPlace() {
    local -a files=()
    while (($#)) && [[ $1 != --* ]]; do
        files+=("$1")
        shift
    done
    local file
    for file in "${files[@]}"; do substitute "$file" "$file" "$@"; done
}
# All environment variables whose names begin with a lower case letter.
substituteAll() {
    local -a arguments=()
    local name
    for name in $(compgen -e); do
        [[ ! $name =~ ^[a-z][A-Za-z0-9_]*$ ]] || arguments+=(--subst-var "$name")
    done
    substitute "$1" "$2" "${arguments[@]}"
}
substituteAllInPlace() { substituteAll "$1" "$1"; }

###### Environment

export SHELL CONFIG_SHELL=$SHELL shell=$SHELL
export NIX_BUILD_TOP=${NIX_BUILD_TOP:-$PWD} NIX_STORE=${NIX_STORE:-/nix/store}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} TZ=${TZ:-UTC} TERM=${TERM:-dumb}
export LC_ALL=${LC_ALL:-C}
: "${NIX_BUILD_CORES:=1}"
((NIX_BUILD_CORES > 0)) || NIX_BUILD_CORES=$(nproc)
export NIX_BUILD_CORES
prefix=${prefix:-$out}

# outputDev, outputBin, …: the names of the outputs that get those files
_assignOutput() { # NAME CANDIDATE…
    local variable=$1 candidate
    [[ -z ${!variable:-} ]] || return 0
    shift
    for candidate in "$@" $(getAllOutputNames); do
        if [[ " $(getAllOutputNames) " == *" $candidate "* ]]; then
            printf -v "$variable" '%s' "$candidate"
            return 0
        fi
    done
    printf -v "$variable" out
}
_assignOutput outputDev dev out
_assignOutput outputBin bin out
_assignOutput outputLib lib out
_assignOutput outputDoc doc out
_assignOutput outputMan man "$outputBin"
_assignOutput outputInclude "$outputDev"

###### Dependencies

declare -a envHostHostHooks=() envBuildHostHooks=()
# addEnvHooks OFFSET FUNCTION: called with each dependency. Build and host are one platform
# here, so the offset does not matter.
addEnvHooks() {
    shift
    envHostHostHooks+=("$@")
}

declare -A _activated=()
declare -a _activatedPackages=()
_path=

# _activate PACKAGE KIND: KIND is native (for its programs) or host (to link with it). Without
# strictDeps either list does both.
_activate() {
    local package=$1 kind=$2 directory
    [[ -n $package && -z ${_activated[$kind$package]:-} ]] || return 0
    _activated[$kind$package]=1
    if [[ -f $package ]]; then
        source "$package"
        return 0
    fi
    _activatedPackages+=("$package")
    if [[ $kind == native || -z ${strictDeps:-} ]] && [[ -d $package/bin ]]; then
        _path+=${_path:+:}$package/bin
    fi
    if [[ $kind == host || -z ${strictDeps:-} ]] && [[ ! -e $package/nix-support/no-link ]]; then
        _addToCompilerFlags "$package"
    fi
    for directory in lib share; do
        addToSearchPath PKG_CONFIG_PATH "$package/$directory/pkgconfig"
    done
    addToSearchPath ACLOCAL_PATH "$package/share/aclocal"
    addToSearchPath CMAKE_PREFIX_PATH "$package"
    addToSearchPath XDG_DATA_DIRS "$package/share"
    _activatePropagated "$package/nix-support/propagated-native-build-inputs" native
    _activatePropagated "$package/nix-support/propagated-build-inputs" "$kind"
    if [[ -e $package/nix-support/setup-hook ]]; then
        set +u
        source "$package/nix-support/setup-hook"
        set -u
    fi
}
_activatePropagated() { # FILE KIND
    local package
    [[ -e $1 ]] || return 0
    for package in $(<"$1"); do _activate "$package" "$2"; done
}

# Headers and libraries of a package. What a program is linked with is looked for where the
# package says (nix-support/runtime), so that it does not refer to headers and tools.
_addToCompilerFlags() {
    local package=$1 directory runtime
    for directory in "$package/include" "$package/include/x86_64-linux-gnu"; do
        if [[ -d $directory && " ${NIX_CFLAGS_COMPILE:-} " != *" -isystem $directory "* ]]; then
            appendToVar NIX_CFLAGS_COMPILE -isystem "$directory"
        fi
    done
    for directory in "$package/lib/x86_64-linux-gnu" "$package/lib64" "$package/lib"; do
        if compgen -G "$directory/lib*.so*" >/dev/null; then
            runtime=$directory
            [[ ! -e $package/nix-support/runtime ]] || runtime=$(<"$package/nix-support/runtime")
            appendToVar NIX_LDFLAGS "-L$directory" -rpath "$runtime" -rpath-link "$runtime"
        elif compgen -G "$directory/lib*.a" >/dev/null; then
            appendToVar NIX_LDFLAGS "-L$directory"
        else
            continue
        fi
        break
    done
}

_activateAll() { # KIND LIST…
    local kind=$1 package
    local -a packages=()
    shift
    concatTo packages "$@"
    for package in "${packages[@]}"; do _activate "$package" "$kind"; done
}
_activateAll native depsBuildBuild nativeBuildInputs propagatedNativeBuildInputs
_activateAll host buildInputs propagatedBuildInputs
_activateAll native defaultNativeBuildInputs
for _package in $initialPath; do _path+=${_path:+:}$_package/bin; done
export PATH=$_path

for _package in "${_activatedPackages[@]}"; do
    for _hook in "${envHostHostHooks[@]}"; do "$_hook" "$_package"; done
done

# gcc makes names unique with random numbers; this makes them a function of the output.
if [[ -n $out ]]; then
    _name=${out##*/}
    appendToVar NIX_CFLAGS_COMPILE "-frandom-seed=${_name:0:10}"
fi
export NIX_CFLAGS_COMPILE NIX_LDFLAGS=${NIX_LDFLAGS:-}
if type -P gcc >/dev/null; then
    export CC=${CC:-gcc} CXX=${CXX:-g++}
    for _name in ar as ld nm objcopy objdump ranlib readelf size strings strip; do
        export "${_name^^}=$_name"
    done
fi

###### Phases

_unpackArchive() {
    case $1 in
        *.tar | *.tar.* | *.tgz | *.txz | *.tbz2 | *.tbz)
            tar -xf "$1" --mode=+w --no-same-owner --warning=no-timestamp
            ;;
        *) return 1 ;;
    esac
}
_unpackDirectory() {
    [[ -d $1 ]] || return 1
    cp -r --preserve=timestamps --reflink=auto -- "$1" "$(stripHash "$1")"
}
unpackCmdHooks+=(_unpackArchive _unpackDirectory)
unpackFile() {
    curSrc=$1
    echo "unpacking source archive $curSrc"
    if [[ -n ${unpackCmd:-} ]]; then
        eval "$unpackCmd"
    elif ! runOneHook unpackCmd "$curSrc"; then
        echo "do not know how to unpack source archive $curSrc" >&2
        exit 1
    fi
}
unpackPhase() {
    runHook preUnpack
    local -a sources=()
    if [[ -n ${srcs:-} ]] || isArray srcs; then
        concatTo sources srcs
    elif [[ -n ${src:-} ]]; then
        sources=("$src")
    else
        echo 'variable $src or $srcs should point to the source' >&2
        exit 1
    fi
    # The directory that was not there before is the source's root.
    local source directory before=:
    for directory in */; do before+=${directory%/}:; done
    for source in "${sources[@]}"; do unpackFile "$source"; done
    if [[ -n ${setSourceRoot:-} ]] || declare -F setSourceRoot >/dev/null; then
        _callImplicitHook setSourceRoot
    elif [[ -z ${sourceRoot:-} ]]; then
        sourceRoot=
        for directory in */; do
            directory=${directory%/}
            [[ -d $directory && $before != *:"$directory":* ]] || continue
            if [[ -n $sourceRoot ]]; then
                echo "unpacker produced multiple directories" >&2
                exit 1
            fi
            sourceRoot=$directory
        done
    fi
    if [[ -z ${sourceRoot:-} ]]; then
        echo "unpacker appears to have produced no directories" >&2
        exit 1
    fi
    echo "source root is $sourceRoot"
    [[ -n ${dontMakeSourcesWritable:-} ]] || chmod -R u+w -- "$sourceRoot"
    updateSourceDateEpoch "$sourceRoot"
    runHook postUnpack
}
# The time of the newest file of the source, unless that is the time of unpacking.
updateSourceDateEpoch() {
    local newest
    newest=$(find "$1" -type f -not -newer "$NIX_BUILD_TOP/.." -printf '%T@\n' | sort -n | tail -n1)
    newest=${newest%.*}
    if [[ -n $newest ]] && ((newest > SOURCE_DATE_EPOCH)); then
        export SOURCE_DATE_EPOCH=$newest
    fi
}

patchPhase() {
    runHook prePatch
    local -a list=() flags=()
    concatTo list patches
    concatTo flags patchFlags=-p1
    local patch
    for patch in "${list[@]}"; do
        echo "applying patch $patch"
        case $patch in
            *.gz) gzip -d <"$patch" ;;
            *.bz2) bzip2 -d <"$patch" ;;
            *.xz) xz -d <"$patch" ;;
            *) cat "$patch" ;;
        esac | patch "${flags[@]}"
    done
    runHook postPatch
}

configurePhase() {
    runHook preConfigure
    if [[ -z ${configureScript:-} && -x ./configure ]]; then configureScript=./configure; fi
    if [[ -n ${configureScript:-} ]]; then
        local -a flags=() command=()
        concatTo command configureScript
        if [[ -z ${dontAddPrefix:-} && -n $prefix ]]; then
            flags+=("${prefixKey:---prefix=}$prefix")
        fi
        if [[ -z ${dontAddDisableDepTrack:-} ]] && grep -q dependency-tracking "${command[0]}"; then
            flags+=(--disable-dependency-tracking)
        fi
        if [[ -z ${dontDisableStatic:-} ]] && grep -q enable-static "${command[0]}"; then
            flags+=(--disable-static)
        fi
        if [[ $(getAllOutputNames) != out && -n ${setOutputFlags-1} ]]; then
            flags+=(
                "--bindir=${!outputBin}/bin"
                "--sbindir=${!outputBin}/sbin"
                "--includedir=${!outputInclude}/include"
                "--libdir=${!outputLib}/lib"
                "--libexecdir=${!outputLib}/libexec"
                "--mandir=${!outputMan}/share/man"
            )
        fi
        concatTo flags configureFlags configureFlagsArray
        echoCmd 'configure flags' "${flags[@]}"
        "${command[@]}" "${flags[@]}"
    else
        echo "no configure script, doing nothing"
    fi
    runHook postConfigure
}

_hasMakefile() { [[ -n ${makefile:-} || -e Makefile || -e makefile || -e GNUmakefile ]]; }
# _make WHAT PARALLEL LIST…: run make with the flags of the lists
_make() {
    local what=$1 parallel=$2
    shift 2
    local -a flags=()
    [[ -z $parallel ]] || flags+=("-j$NIX_BUILD_CORES")
    flags+=("SHELL=$SHELL")
    concatTo flags makeFlags makeFlagsArray "$@"
    echoCmd "$what flags" "${flags[@]}"
    make ${makefile:+-f "$makefile"} "${flags[@]}"
}
# _makeTarget NAME…: the first that the makefile has
_makeTarget() {
    local target
    for target; do
        if make -n ${makefile:+-f "$makefile"} "$target" >/dev/null 2>&1; then
            echo "$target"
            return 0
        fi
    done
    return 0
}
buildPhase() {
    runHook preBuild
    if [[ -z ${makeFlags-} ]] && ! _hasMakefile; then
        echo "no Makefile or custom buildPhase, doing nothing"
    else
        _make build "${enableParallelBuilding:-}" buildFlags buildFlagsArray
    fi
    runHook postBuild
}
checkPhase() {
    runHook preCheck
    if ! _hasMakefile; then
        echo "no Makefile or custom checkPhase, doing nothing"
    else
        [[ -n ${checkTarget:-} ]] || checkTarget=$(_makeTarget check test)
        if [[ -z $checkTarget ]]; then
            echo "no check/test target in ${makefile:-Makefile}, doing nothing"
        else
            _make check "${enableParallelChecking:-}" checkFlags=VERBOSE=y checkFlagsArray checkTarget
        fi
    fi
    runHook postCheck
}
installPhase() {
    runHook preInstall
    if ! _hasMakefile; then
        echo "no Makefile or custom installPhase, doing nothing"
    else
        [[ -z $prefix ]] || mkdir -p "$prefix"
        _make install "${enableParallelInstalling:-}" installFlags installFlagsArray installTargets=install
    fi
    runHook postInstall
}
installCheckPhase() {
    runHook preInstallCheck
    if _hasMakefile; then
        [[ -n ${installCheckTarget:-} ]] || installCheckTarget=$(_makeTarget installcheck)
        [[ -z $installCheckTarget ]] ||
            _make installcheck "${enableParallelChecking:-}" installCheckFlags installCheckFlagsArray installCheckTarget
    fi
    runHook postInstallCheck
}
distPhase() {
    runHook preDist
    _make dist "" distFlags distFlagsArray distTarget=dist
    if [[ -z ${dontCopyDist:-} ]]; then
        mkdir -p "$out/tarballs"
        cp -pvd ${tarballs:-*.tar.gz} "$out/tarballs"
    fi
    runHook postDist
}

###### Fix-up of what was installed

# patchShebangs [--build|--host|--update] PATH…: interpreters of scripts become those on PATH
patchShebangs() {
    while [[ ${1:-} == --* ]]; do shift; done
    local file
    while IFS= read -r -d '' file; do
        ! isScript "$file" || _patchShebang "$file"
    done < <(find "$@" -type f -perm -0100 -print0)
}
_patchShebang() {
    local file=$1 line interpreter arguments path times
    read -r line <"$file" || true
    read -r interpreter arguments <<<"${line#\#!}"
    [[ $interpreter != "$NIX_STORE"/* && -n $interpreter ]] || return 0
    if [[ ${interpreter##*/} == env ]]; then
        arguments=${arguments#-S }
        read -r interpreter arguments <<<"$arguments"
    fi
    path=$(type -P "${interpreter##*/}") || return 0
    echo "$file: interpreter directive changed from \"$line\" to \"#!$path${arguments:+ $arguments}\""
    times=$(stat --format %y "$file")
    sed -i -e "1 s|.*|#!$path${arguments:+ $arguments}|" "$file"
    touch --date "$times" "$file"
}

# moveToOutput PATTERN OUTPUT: from all other outputs; OUTPUT REMOVE deletes
moveToOutput() {
    local pattern=$1 to=$2 output source target
    for output in $(getAllOutputNames); do
        [[ $output != "$to" ]] || continue
        for source in "${!output}"/$pattern; do
            [[ -e $source || -L $source ]] || continue
            if [[ $to == REMOVE ]]; then
                rm -r "$source"
            else
                target=${!to}${source#"${!output}"}
                echo "Moving $source to $target"
                mkdir -p "${target%/*}"
                if [[ -d $target ]]; then
                    cp -a "$source/." "$target/"
                    rm -r "$source"
                else
                    mv "$source" "$target"
                fi
            fi
            rmdir --ignore-fail-on-non-empty "${source%/*}"
        done
    done
}
_multipleOutputs() {
    local part
    [[ $(getAllOutputNames) != out && -n ${moveToDev-1} ]] || return 0
    if [[ $outputDev != out ]]; then
        for part in include lib/pkgconfig share/pkgconfig lib/cmake share/aclocal; do
            moveToOutput "$part" "$outputDev"
        done
    fi
    [[ $outputMan == out ]] || moveToOutput share/man "$outputMan"
    [[ $outputDoc == out ]] || moveToOutput share/doc "$outputDoc"
}
preFixupHooks+=(_multipleOutputs)

_moveSbin() {
    [[ -z ${dontMoveSbin:-} && -d $prefix/sbin && ! -L $prefix/sbin ]] || return 0
    mkdir -p "$prefix/bin"
    mv "$prefix"/sbin/* "$prefix/bin/"
    rmdir "$prefix/sbin"
    ln -s bin "$prefix/sbin"
}
_strip() {
    [[ -z ${dontStrip:-} ]] && type -P strip >/dev/null || return 0
    local -a directories=() flags=() existing=()
    local directory
    concatTo directories stripDebugList="lib lib32 lib64 libexec bin sbin"
    concatTo flags stripDebugFlags="-S -p"
    for directory in "${directories[@]}"; do
        [[ ! -d $prefix/$directory ]] || existing+=("$prefix/$directory")
    done
    ((${#existing[@]})) || return 0
    # strip says of scripts and data that they are none of its business
    find "${existing[@]}" -type f -print0 | xargs -0 -r -n1 strip "${flags[@]}" 2>/dev/null || true
}
_shrinkRpaths() {
    [[ -z ${dontPatchELF:-} ]] || return 0
    local file
    while IFS= read -r -d '' file; do
        # (static programs have no rpath)
        if isELF "$file" && patchelf --print-rpath "$file" >/dev/null 2>&1; then
            patchelf --shrink-rpath "$file"
        fi
    done < <(find "$prefix" -type f \( -perm -0100 -o -name '*.so*' \) -print0)
}
_compressManPages() {
    [[ -z ${dontGzipMan:-} && -d $prefix/share/man ]] || return 0
    find "$prefix/share/man" -type f ! -name '*.gz' -exec gzip -n -f {} +
}
_patchOutputShebangs() { [[ -n ${dontPatchShebangs:-} ]] || patchShebangs "$prefix"; }
fixupOutputHooks+=(_moveSbin _strip _shrinkRpaths _compressManPages _patchOutputShebangs)

fixupPhase() {
    local output
    for output in $(getAllOutputNames); do
        [[ ! -e ${!output} ]] || chmod -R u+w,u-s,g-s "${!output}"
    done
    runHook preFixup
    for output in $(getAllOutputNames); do
        [[ -d ${!output} ]] || continue
        prefix=${!output} runHook fixupOutput
    done
    _recordPropagated
    runHook postFixup
}
_recordPropagated() {
    local name
    local -A files=(
        [propagatedBuildInputs]=propagated-build-inputs
        [propagatedNativeBuildInputs]=propagated-native-build-inputs
    )
    for name in "${!files[@]}"; do
        local -a list=()
        concatTo list "$name"
        ((${#list[@]})) || continue
        mkdir -p "${!outputDev}/nix-support"
        echo "${list[*]}" >"${!outputDev}/nix-support/${files[$name]}"
    done
    if [[ -n ${setupHook:-} ]]; then
        mkdir -p "${!outputDev}/nix-support"
        substituteAll "$setupHook" "${!outputDev}/nix-support/setup-hook"
    fi
}

###### The build

# _isWanted PHASE
_isWanted() {
    local switch
    case $1 in
        checkPhase | installCheckPhase | distPhase)
            switch=${1%Phase}
            switch=do${switch^}
            [[ -n ${!switch:-} ]]
            ;;
        unpackPhase | patchPhase | configurePhase | buildPhase | installPhase | fixupPhase)
            switch=${1%Phase}
            switch=dont${switch^}
            [[ -z ${!switch:-} ]]
            ;;
    esac
}
runPhase() {
    local curPhase=$1 start end
    _isWanted "$curPhase" || return 0
    showPhaseHeader "$curPhase"
    start=$SECONDS
    if [[ -n ${!curPhase:-} ]]; then eval "${!curPhase}"; else "$curPhase"; fi
    end=$SECONDS
    showPhaseFooter "$curPhase" "$start" "$end"
    [[ $curPhase != unpackPhase ]] || cd -- "${sourceRoot:-.}"
}
definePhases() {
    [[ -z ${phases:-} ]] || return 0
    local -a list=()
    concatTo list prePhases
    list+=(unpackPhase patchPhase)
    concatTo list preConfigurePhases
    list+=(configurePhase)
    concatTo list preBuildPhases
    list+=(buildPhase checkPhase)
    concatTo list preInstallPhases
    list+=(installPhase)
    concatTo list preFixupPhases
    list+=(fixupPhase installCheckPhase)
    concatTo list preDistPhases
    list+=(distPhase)
    concatTo list postPhases
    phases="${list[*]}"
}
genericBuild() {
    if [[ -n ${buildCommandPath:-} ]]; then
        source "$buildCommandPath"
        return
    fi
    if [[ -n ${buildCommand:-} ]]; then
        eval "$buildCommand"
        return
    fi
    definePhases
    local -a list=()
    concatTo list phases
    local phase
    for phase in "${list[@]}"; do runPhase "$phase"; done
}

# Packages' phases are not written for nounset.
set +u
runHook postHook
