#!/bin/sh
# Runs every end-to-end test in the guest, and fails if one of them does.
status=0
for test in tests/*; do
    echo "     Running $test"
    "$test" --test-threads=2 || status=1
done
exit $status
