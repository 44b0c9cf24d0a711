# After unpacking gcc, binutils and libc's headers into one tree: make that tree a sysroot
# whose programs use the libc in the store. ($libc, $shell, $wrapper: from toolchain.nix)

version=$(cd "$out/usr/bin" && echo "$multiarch"-gcc-[0-9]*)
version=${version##*-}
prefix=$out/usr/bin/$multiarch-

# libc itself, for the linker scripts and for -l
for file in "$libc/usr/lib/$multiarch"/*; do
    [ -e "$out/usr/lib/$multiarch/${file##*/}" ] || ln -s "$file" "$out/usr/lib/$multiarch/"
done
mkdir -p "$out/usr/lib64"
ln -sfn "$libc/usr/lib64/ld-linux-x86-64.so.2" "$out/usr/lib64/"
for name in lib lib64; do ln -sfn "usr/$name" "$out/$name"; done

# What gcc links refers to the libc in the store: dynamic linker and rpath.
directory=$out/usr/lib/gcc/$multiarch/$version
"${prefix}gcc-$version" -dumpspecs |
    sed "s@/lib64/ld-linux-x86-64.so.2@$libc/usr/lib64/ld-linux-x86-64.so.2@g" |
    sed "/^\*link:/{n;s@\$@ %{!static:%{!static-pie:%{!r:-rpath $libc/usr/lib/$multiarch}}}@}" \
        >"$directory/specs"

for name in gcc g++ cpp; do
    {
        echo "#!$shell"
        echo "program=$prefix$name-$version sysroot=$out"
        cat "$wrapper"
    } >"$out/usr/bin/$name.wrapper"
    chmod 755 "$out/usr/bin/$name.wrapper"
    for link in "$name" "$name-$version" "$multiarch-$name"; do
        ln -sfn "$name.wrapper" "$out/usr/bin/$link"
    done
    publish "$name" "$name-$version"
done
ln -sfn gcc.wrapper "$out/usr/bin/cc"
ln -sfn g++.wrapper "$out/usr/bin/c++"
publish cc c++

# binutils' and the other programs also without the platform in front
for file in "$prefix"*; do
    name=${file#"$prefix"}
    case $name in
        gcc | gcc-"$version" | g++* | cpp*) ;;
        *) publish "$name" ;;
    esac
done

rm -rf "$out"/usr/bin/*lto-dump* "$out/usr/share/gcc" "$out/usr/share/gdb"

# Its headers and libraries are found through the sysroot, not by flags.
noLink=1
