# gcc with what the environment asks for: NIX_CFLAGS_COMPILE always, NIX_LDFLAGS and
# NIX_CFLAGS_LINK when it links. ($program and $sysroot are set above)
links=
for argument; do
    case $argument in
        -c | -S | -E | -M | -MM | -r | -fsyntax-only)
            links=
            break
            ;;
        -?*) ;;
        *) links=1 ;;
    esac
done
flags=()
if [[ -n $links ]]; then
    for flag in $NIX_LDFLAGS; do flags+=("-Wl,$flag"); done
    flags+=($NIX_CFLAGS_LINK)
fi
exec "$program" --sysroot="$sysroot" -B"$sysroot/usr/bin/" "$@" $NIX_CFLAGS_COMPILE "${flags[@]}"
