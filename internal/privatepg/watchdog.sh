# Ends the process $1 when standard input ends. The other end of that pipe is
# held by the process that started the server and by nobody else, and the
# kernel closes it however that process dies.
trap '' HUP INT QUIT TERM
while read -r line; do :; done
# Fast, then immediate, then without asking; some seconds for each.
for signal in INT QUIT KILL; do
    kill -s "$signal" "$1" 2>/dev/null || exit 0
    for second in 1 2 3 4 5; do
        kill -s 0 "$1" 2>/dev/null || exit 0
        sleep 1
    done
done
