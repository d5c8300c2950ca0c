use super::*;

#[test]
fn log2_is_the_kernels() {
    for (value, exponent) in [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (1 << 63, 63),
        ((1 << 63) + 1, 64),
        (u64::MAX, 64),
    ] {
        assert_eq!(log2(value), exponent, "{value}");
    }
}
