# Debian packages -> one tree in $out. Run by busybox sh in the sandbox, without anything else.
#
#   $out/usr          what the packages have there, and what they have in /bin, /lib, …
#   $out/bin          links to the programs of the root packages only
#   $out/lib, …       links into usr
#
# Libraries and pkg-config files are also linked out of the multiarch directory into usr/lib,
# where programs outside Debian look for them.
#
# seed sandboxShell debs roots libraryPath interpreter interpreters multiarch runtime setupHook
# post: from debs.nix

"$seed/busybox" mkdir -p /build/tools
"$seed/busybox" --install -s /build/tools
export PATH=/build/tools

patchelf() { "$seed/lib/ld-linux-x86-64.so.2" --library-path "$seed/lib" "$seed/patchelf" "$@"; }

is_elf() {
    magic=
    IFS= read -r -n 4 magic <"$1" 2>/dev/null || :
    case $magic in
        *ELF) ;;
        *) return 1 ;;
    esac
}

# publish NAME…: programs to link into $out/bin
publish() {
    for name; do echo "$name" >>/build/published; done
}

# wrap PROGRAM ASSIGNMENT…: have it start with variables set; values are in shell syntax
wrap() {
    program=$1
    shift
    mv "$out/usr/bin/$program" "$out/usr/bin/.$program"
    {
        echo "#!$sandboxShell/bin/busybox sh"
        for assignment; do echo "export $assignment"; done
        echo "exec $out/usr/bin/.$program \"\$@\""
    } >"$out/usr/bin/$program"
    chmod 755 "$out/usr/bin/$program"
}

unpack_deb() {
    mkdir archive content
    (cd archive && ar x "$1")
    case $(echo archive/data.tar.*) in
        *.xz) xz -dc archive/data.tar.xz ;;
        *.gz) gzip -dc archive/data.tar.gz ;;
        *)
            echo "$1: compressed in a way that busybox does not know" >&2
            exit 1
            ;;
    esac | tar -x -o --no-same-permissions -C content -f -
    rm -rf archive
}

# Merge what is unpacked into $out, without what only an installed system uses.
place() {
    for name in bash-completion bug doc doc-base applications fish icons info lintian locale man zsh; do
        rm -rf "content/usr/share/$name"
    done
    rm -rf content/etc content/var
    for name in bin lib lib64 sbin; do
        if [ -d "content/$name" ] && [ ! -L "content/$name" ]; then
            mkdir -p "content/usr/$name"
            cp -af "content/$name/." "content/usr/$name/"
            rm -rf "content/$name"
        fi
    done
    if [ -d content/usr/sbin ]; then
        mkdir -p content/usr/bin
        cp -af content/usr/sbin/. content/usr/bin/
        rm -rf content/usr/sbin
    fi
    case " $roots " in
        *" $1 "*) [ ! -d content/usr/bin ] || (cd content/usr/bin && publish *) ;;
    esac
    cp -af content/. "$out/"
    rm -rf content
}

# Absolute links to files of this tree become links into this tree.
fix_links() {
    find "$out" -type l | while read -r link; do
        target=$(readlink "$link")
        case $target in
            /nix/*) continue ;;
            /lib* | /bin/* | /sbin/*) target=/usr$target ;;
            /*) ;;
            *) continue ;;
        esac
        if [ -e "$out$target" ] || [ -L "$out$target" ]; then
            ln -sfn "$out$target" "$link"
        fi
    done
}

fix_elf_files() {
    [ -n "$interpreter" ] || return 0
    [ "$interpreter" != self ] || interpreter=$out/usr/lib64/ld-linux-x86-64.so.2
    rpath=$out/usr/lib/$multiarch${libraryPath:+:$libraryPath}
    find "$out" -type f -size +0 \( -perm -100 -o -name '*.so*' \) | while read -r file; do
        is_elf "$file" || continue
        # libc and the dynamic linker must stay as they are
        case ${file##*/} in
            ld-linux* | libc.so.6 | *.o | *.a) continue ;;
        esac
        # The rpath first: patchelf 0.18 damages programs with a fixed address the other way round.
        if ! patchelf --force-rpath --set-rpath "$rpath" "$file" 2>error; then
            # statically linked, or no program at all
            grep -q "section '.dynamic'\|statically linked\|cannot find section" error && continue
            cat error >&2
            exit 1
        fi
        if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
            patchelf --set-interpreter "$interpreter" "$file"
        fi
    done
}

# #! lines: programs of this tree, else of $interpreters.
fix_scripts() {
    for file in "$out"/usr/bin/*; do
        [ -f "$file" ] && [ ! -L "$file" ] || continue
        is_elf "$file" && continue
        line=
        IFS= read -r line <"$file" || :
        case $line in
            '#!/nix/'*) continue ;;
            '#!'*) ;;
            *) continue ;;
        esac
        line=${line#??}
        set -- $line
        case $1 in
            */env) shift ;;
        esac
        name=${1##*/}
        shift
        for directory in "$out/usr/bin" $interpreters; do
            if [ -e "$directory/$name" ]; then
                sed -i "1s@.*@#!$directory/$name${*:+ $*}@" "$file"
                break
            fi
        done
    done
}

fix_pkg_config() {
    for file in "$out/usr/lib/pkgconfig"/*.pc "$out/usr/lib/$multiarch/pkgconfig"/*.pc \
        "$out/usr/share/pkgconfig"/*.pc; do
        [ -f "$file" ] || continue
        sed -i "s@=/usr\b@=$out/usr@; s@\([ =]-[IL]\)/usr\b@\1$out/usr@g" "$file"
    done
}

link_out_of_multiarch() {
    [ -d "$out/usr/lib/$multiarch" ] || return 0
    for file in "$out/usr/lib/$multiarch/pkgconfig"/*; do
        [ -e "$file" ] || continue
        mkdir -p "$out/usr/lib/pkgconfig"
        ln -s "../$multiarch/pkgconfig/${file##*/}" "$out/usr/lib/pkgconfig/"
    done
    for file in "$out/usr/lib/$multiarch"/*.so* "$out/usr/lib/$multiarch"/*.a; do
        [ -e "$file" ] && [ ! -e "$out/usr/lib/${file##*/}" ] || continue
        ln -s "$multiarch/${file##*/}" "$out/usr/lib/"
    done
}

finish() {
    sort -u /build/published | while read -r name; do
        [ -e "$out/usr/bin/$name" ] || continue
        mkdir -p "$out/bin"
        ln -s "../usr/bin/$name" "$out/bin/$name"
    done
    for name in include lib lib64 libexec share; do
        [ ! -d "$out/usr/$name" ] || [ -e "$out/$name" ] || ln -s "usr/$name" "$out/$name"
    done
    mkdir -p "$out/nix-support"
    # For programs only: stdenv's setup gives no -isystem and no -L for it.
    case "$roots " in
        *-dev\ *) ;;
        *) noLink=1 ;;
    esac
    [ -z "$noLink" ] || touch "$out/nix-support/no-link"
    [ -z "$runtime" ] || echo "$runtime" >"$out/nix-support/runtime"
    [ -z "$setupHook" ] || printf '%s\n' "$setupHook" >"$out/nix-support/setup-hook"
}

cd /build
: >published
noLink=
mkdir -p "$out/usr/bin" "$out/usr/lib"
for deb in $debs; do
    name=${deb##*/}
    name=${name#*-}
    unpack_deb "$deb"
    place "${name%.deb}"
done
chmod -R u+w "$out"
fix_links
fix_elf_files
fix_scripts
fix_pkg_config
link_out_of_multiarch
eval "$post"
finish
