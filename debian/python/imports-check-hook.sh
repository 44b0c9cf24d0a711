# pythonImportsCheck: modules that must be importable from what was installed
pythonImportsCheckPhase() {
    local -a modules=()
    concatTo modules pythonImportsCheck
    ((${#modules[@]})) || return 0
    echo "Check whether the following modules can be imported: ${modules[*]}"
    (cd "$out" && python3 -c "
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
" "${modules[@]}")
}
if [[ -z ${dontUsePythonImportsCheck:-} ]]; then appendToVar preDistPhases pythonImportsCheckPhase; fi
