# linkTree FROM TO: directories become directories, files become links. Of two files of a name
# the first stays.
linkTree() {
    local entry
    for entry in "$1"/* "$1"/.[!.]*; do
        if [[ -d $entry ]]; then
            mkdir -p "$2/${entry##*/}"
            cp -rs --update=none -- "$entry/." "$2/${entry##*/}/"
            # (directories in the store are read-only, and cp makes them so here too)
            chmod -R u+w "$2/${entry##*/}"
        elif [[ -e $entry || -L $entry ]] && [[ ! -e $2/${entry##*/} ]]; then
            ln -s "$entry" "$2/"
        fi
    done
}
