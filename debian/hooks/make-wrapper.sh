# makeWrapper PROGRAM WRAPPER OPTIONS…, wrapProgram PROGRAM OPTIONS…
makeWrapper() {
    local program=$1 wrapper=$2 argv0=
    local -a lines=() before=() after=()
    shift 2
    while (($#)); do
        case $1 in
            --set)
                lines+=("export $2=${3@Q}")
                shift 3
                ;;
            --set-default)
                lines+=("export $2=\${$2-${3@Q}}")
                shift 3
                ;;
            --unset)
                lines+=("unset $2")
                shift 2
                ;;
            --prefix)
                lines+=("export $2=${4@Q}\${$2:+${3@Q}\$$2}")
                shift 4
                ;;
            --suffix)
                lines+=("export $2=\${$2:+\$$2${3@Q}}${4@Q}")
                shift 4
                ;;
            --run)
                lines+=("$2")
                shift 2
                ;;
            --chdir)
                lines+=("cd ${2@Q}")
                shift 2
                ;;
            --add-flag)
                before+=("${2@Q}")
                shift 2
                ;;
            --add-flags)
                before+=("$2")
                shift 2
                ;;
            --append-flag)
                after+=("${2@Q}")
                shift 2
                ;;
            --append-flags)
                after+=("$2")
                shift 2
                ;;
            --argv0)
                argv0="-a ${2@Q}"
                shift 2
                ;;
            --inherit-argv0)
                argv0='-a "$0"'
                shift
                ;;
            --resolve-argv0) shift ;;
            *)
                echo "makeWrapper: unknown argument $1" >&2
                return 1
                ;;
        esac
    done
    mkdir -p "$(dirname "$wrapper")"
    {
        echo "#! $SHELL -e"
        ((${#lines[@]} == 0)) || printf '%s\n' "${lines[@]}"
        echo "exec $argv0 ${program@Q} ${before[*]} \"\$@\" ${after[*]}"
    } >"$wrapper"
    chmod +x "$wrapper"
}
wrapProgram() {
    local program=$1 hidden
    shift
    hidden=$(dirname "$program")/.$(basename "$program")-wrapped
    mv "$program" "$hidden"
    makeWrapper "$hidden" "$program" --inherit-argv0 "$@"
}
makeShellWrapper() { makeWrapper "$@"; }
wrapProgramShell() { wrapProgram "$@"; }
