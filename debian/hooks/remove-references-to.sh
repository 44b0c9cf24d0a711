# remove-references-to -t PATH… FILE…: overwrite the hash of store paths in files
targets=()
while [[ ${1:-} == -t ]]; do
    targets+=("$2")
    shift 2
done
for file; do
    for target in "${targets[@]}"; do
        hash=${target#"$NIX_STORE"/}
        sed -i -e "s|${hash:0:32}|eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee|g" "$file"
    done
done
