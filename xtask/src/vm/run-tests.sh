#!/bin/sh
# Runs every end-to-end test in the guest, then the shared ones with the other sources, and fails if one of them does.
status=0
for test in tests/*; do
    echo "     Running $test"
    "$test" --test-threads=2 || status=1
done
for source in $OTHER_SOURCES; do
    for name in $SHARED_TESTS; do
        echo "     Running tests/$name with $source"
        TRACER_TEST_BACKEND=$source TRACER_TEST_SCALE=$OTHER_SCALE "tests/$name" --test-threads=2 || status=1
    done
done
exit $status
