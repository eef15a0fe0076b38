cd /tmp/rcw; timeout -s INT 8 ./ow dev --listen=127.0.0.1:0 --data-dir=/tmp/rcw/dd --config=/tmp/rc/examples/provider --config=/tmp/rcw/my --simulate 2>&1 | tail -8
