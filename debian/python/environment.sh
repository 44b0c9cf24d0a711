# A virtual environment of $modules: links to their files, and their programs run by its own
# interpreter, so that they see all of them.
site=lib/$(basename "$(readlink -f "$python/bin/python3")")/site-packages
mkdir -p "$out/bin" "$out/$site"
cat >"$out/pyvenv.cfg" <<END
home = $python/bin
include-system-site-packages = false
END
for name in python python3 "$(basename "$(readlink -f "$python/bin/python3")")"; do
    ln -s "$python/bin/$name" "$out/bin/$name"
done
for module in $modules; do
    if [[ -d $module/$site ]]; then
        mkdir -p "$out/$site"
        cp -rs --update=none -- "$module/$site/." "$out/$site/"
        chmod -R u+w "$out/$site"
    fi
    for file in "$module"/bin/*; do
        [[ -e $file && ! -e $out/bin/${file##*/} ]] || continue
        line=
        IFS= read -r line 2>/dev/null <"$file" || true
        if [[ $line == '#!'*/python* ]]; then
            sed "1s@.*@#!$out/bin/python3@" "$file" >"$out/bin/${file##*/}"
            chmod +x "$out/bin/${file##*/}"
        else
            ln -s "$file" "$out/bin/"
        fi
    done
done
