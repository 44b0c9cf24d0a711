mesonConfigurePhase() {
    runHook preConfigure
    local -a flags=(
        "--prefix=$prefix"
        "--libdir=${!outputLib}/lib"
        "--libexecdir=${!outputLib}/libexec"
        "--bindir=${!outputBin}/bin"
        "--sbindir=${!outputBin}/sbin"
        "--includedir=${!outputInclude}/include"
        "--mandir=${!outputMan}/share/man"
        "--buildtype=${mesonBuildType:-plain}"
        "--wrap-mode=${mesonWrapMode:-nodownload}"
        "-Dauto_features=${mesonAutoFeatures:-enabled}"
    )
    concatTo flags mesonFlags mesonFlagsArray
    echoCmd 'mesonConfigurePhase flags' "${flags[@]}"
    meson setup "${mesonBuildDir:=build}" "${flags[@]}"
    cd "$mesonBuildDir"
    runHook postConfigure
}
if [[ -z ${dontUseMesonConfigure:-} && -z ${configurePhase:-} ]]; then
    configurePhase=mesonConfigurePhase
fi
