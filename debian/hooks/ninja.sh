_ninja() { # WHAT LIST…
    local what=$1
    shift
    local -a flags=("-j$NIX_BUILD_CORES")
    concatTo flags ninjaFlags ninjaFlagsArray "$@"
    echoCmd "$what flags" "${flags[@]}"
    TERM=dumb ninja "${flags[@]}"
}
ninjaBuildPhase() {
    runHook preBuild
    _ninja build
    runHook postBuild
}
ninjaCheckPhase() {
    runHook preCheck
    _ninja check checkTarget=test
    runHook postCheck
}
ninjaInstallPhase() {
    runHook preInstall
    _ninja install installTargets=install
    runHook postInstall
}
if [[ -z ${dontUseNinjaBuild:-} && -z ${buildPhase:-} ]]; then buildPhase=ninjaBuildPhase; fi
if [[ -z ${dontUseNinjaCheck:-} && -z ${checkPhase:-} ]]; then checkPhase=ninjaCheckPhase; fi
if [[ -z ${dontUseNinjaInstall:-} && -z ${installPhase:-} ]]; then installPhase=ninjaInstallPhase; fi
