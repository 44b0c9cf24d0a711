# pytest on the source tree's tests, with the installed package.
pytestCheckPhase() {
    runHook preCheck
    local -a flags=(-p no:cacheprovider) names=() paths=()
    concatTo flags pytestFlags pytestFlagsArray enabledTestPaths
    concatTo names disabledTests
    concatTo paths disabledTestPaths
    local name expression=
    for name in "${names[@]}"; do expression+=${expression:+ and }"not $name"; done
    [[ -z $expression ]] || flags+=(-k "$expression")
    for name in "${paths[@]}"; do flags+=("--ignore-glob=$name"); done
    echoCmd 'pytest flags' "${flags[@]}"
    python3 -m pytest "${flags[@]}"
    runHook postCheck
}
if [[ -z ${dontUsePytestCheck:-} && -z ${installCheckPhase:-} ]]; then
    appendToVar preDistPhases pytestCheckPhase
fi
