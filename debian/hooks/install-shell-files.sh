# installManPage FILE…: into the directory of the section that its name ends with
installManPage() {
    local file name
    for file; do
        [[ $file != -- ]] || continue
        name=${file%.gz}
        install -Dm644 -T "$file" "${!outputMan}/share/man/man${name##*.}/${file##*/}"
    done
}

# installShellCompletion [--cmd NAME] ([--name NAME] --bash|--fish|--zsh FILE…)…
# With --cmd the files may be pipes, <(…).
installShellCompletion() {
    local shell= command= name= target file
    while (($#)); do
        case $1 in
            --bash | --fish | --zsh) shell=${1#--} ;;
            --cmd)
                command=$2
                shift
                ;;
            --name)
                name=$2
                shift
                ;;
            --) ;;
            *)
                file=$1
                if [[ -z $shell ]]; then
                    case $file in
                        *.bash) shell=bash ;;
                        *.fish) shell=fish ;;
                        *.zsh | */_*) shell=zsh ;;
                        *)
                            echo "installShellCompletion: which shell is $file for?" >&2
                            return 1
                            ;;
                    esac
                fi
                case $shell in
                    bash) target=bash-completion/completions/${name:-${command:+$command.bash}} ;;
                    fish) target=fish/vendor_completions.d/${name:-${command:+$command.fish}} ;;
                    zsh) target=zsh/site-functions/${name:-${command:+_$command}} ;;
                esac
                [[ $target != */ ]] || target+=${file##*/}
                target=${!outputBin}/share/$target
                mkdir -p "${target%/*}"
                cat "$file" >"$target"
                if [[ ! -s $target ]]; then
                    echo "installShellCompletion: $file is empty" >&2
                    return 1
                fi
                name=
                ;;
        esac
        shift
    done
}

installBin() {
    local file
    for file; do install -Dm755 -t "${!outputBin}/bin" "$file"; done
}
