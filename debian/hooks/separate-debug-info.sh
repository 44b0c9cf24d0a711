# separateDebugInfo: debug information goes to the output `debug`, as
# lib/debug/.build-id/XX/REST.debug, where debuggers look for it by the build id.
dontStrip=1
appendToVar NIX_CFLAGS_COMPILE -ggdb
appendToVar NIX_LDFLAGS --build-id

_separateDebugInfo() {
    [[ $prefix != "$debug" ]] || return 0
    local directory=$debug/lib/debug/.build-id file id target
    while IFS= read -r -d '' file; do
        isELF "$file" || continue
        # programs and shared libraries; an object file has no build id
        [[ $(readelf -h "$file") =~ Type:\ +(EXEC|DYN) ]] || continue
        id=$(readelf -n "$file" | sed -n 's/ *Build ID: *//p')
        if [[ -z $id ]]; then
            echo "could not find the build id of $file, skipping" >&2
            continue
        fi
        target=$directory/${id:0:2}/${id:2}.debug
        echo "separating debug info from $file (build id $id)"
        mkdir -p "${target%/*}"
        objcopy --only-keep-debug "$file" "$target"
        strip --strip-unneeded "$file"
        # (the link holds the file's name and checksum, and gdb looks beside it otherwise)
        (cd "${target%/*}" && objcopy --add-gnu-debuglink="${target##*/}" "$file")
        ln -sfn ".build-id/${id:0:2}/${id:2}.debug" "$debug/lib/debug/${file##*/}.debug"
    done < <(find "$prefix" -type f \( -perm -0100 -o -name '*.so*' \) -print0 | sort -z)
}
fixupOutputHooks+=(_separateDebugInfo)
