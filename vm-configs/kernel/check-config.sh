# check-config.sh FRAGMENT CONFIG: every option of FRAGMENT is in CONFIG as it is asked for.
#
# olddefconfig drops an option without a word when what it depends on is not there, or when a
# newer kernel calls it something else.

failed=0
while IFS= read -r line; do
  name=${line%%=*}
  case $line in
    CONFIG_*=n)
      grep -q "^$name=" "$2" || continue ;;
    CONFIG_*)
      ! grep -qxF -- "$line" "$2" || continue ;;
    *)
      continue ;;
  esac
  echo "$line did not take: $(grep -E "^($name=|# $name )" "$2" || echo "there is no $name")" >&2
  failed=1
done < "$1"
exit $failed
