# wrapPythonPrograms: programs in $out/bin find their modules ($pythonSites) and the programs of
# these ($pythonBins); makeWrapperArgs adds to that.
wrapPythonPrograms() {
    local file line
    local -a sites=("$out/@sitePackages@") bins=("$out/bin") arguments=()
    concatTo sites pythonSites
    concatTo bins pythonBins
    concatTo arguments makeWrapperArgs makeWrapperArgsArray
    local IFS
    for file in "$out"/bin/*; do
        [[ -f $file && -x $file ]] || continue
        line=
        IFS= read -r line 2>/dev/null <"$file" || true
        [[ $line == '#!'*/python* ]] || continue
        # What the module sees as its name is the wrapper's, not that of the hidden file.
        sed -i "1a import sys, site; sys.argv[0] = '$file'; [site.addsitedir(path) for path in '${sites[*]}'.split()]" "$file"
        IFS=:
        wrapProgram "$file" --prefix PATH : "${bins[*]}" --set PYTHONNOUSERSITE true "${arguments[@]}"
        unset IFS
    done
}
