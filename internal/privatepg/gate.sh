# Waits for a line on descriptor 3, then becomes the program in the arguments.
# Without the line (the parent is gone) it does nothing: the program must not
# run before something watches over it.
read -r line <&3 || exit 1
exec 3<&-
exec "$@"
