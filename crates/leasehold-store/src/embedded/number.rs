//! Numbers as Redis reads and writes them.
//!
//! Invariant: an integer has one text, and no other text reads as that integer. A double is written with 17 significant
//! digits, as the `%.17g` of C does.

use std::fmt::Write;

/// Reads an integer the strict way: no sign but a minus, no leading zero, and nothing around the digits.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !canonical {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// The number that C's `strtod` finds at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    value: f64,
    /// The number of bytes that the number took, leading blanks included.
    length: usize,
    /// True if no double is near the number of the text.
    out_of_range: bool,
}

/// Reads a double in the form of scores and increments.
pub(super) fn double(text: &[u8]) -> Option<f64> {
    let found = strtod(text);
    let starts_blank = text.first().is_none_or(|&byte| is_blank(byte));
    (!starts_blank && found.length == text.len() && !found.out_of_range && !found.value.is_nan())
        .then_some(found.value)
}

/// Reads a double in the form of a range's end. Leading blanks do not matter, and an empty text is zero.
pub(super) fn lenient_double(text: &[u8]) -> Option<f64> {
    // C stops at the first zero byte.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let found = strtod(text);
    (found.length == text.len() && !found.value.is_nan()).then_some(found.value)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn strtod(text: &[u8]) -> Found {
    const NOTHING: Found = Found { value: 0.0, length: 0, out_of_range: false };
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let signed = &text[blanks..];
    let negative = signed.first() == Some(&b'-');
    let sign = usize::from(matches!(signed.first(), Some(b'-' | b'+')));
    let Some((value, length, out_of_range)) = magnitude(&signed[sign..]) else {
        return NOTHING;
    };
    Found { value: if negative { -value } else { value }, length: blanks + sign + length, out_of_range }
}

fn magnitude(text: &[u8]) -> Option<(f64, usize, bool)> {
    for (word, value) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes())) {
            return Some((value, word.len(), false));
        }
    }
    if let [b'0', b'x' | b'X', rest @ ..] = text
        && let Some((value, length)) = hexadecimal(rest)
    {
        return Some((value, length + 2, value.is_infinite()));
    }
    decimal(text)
}

fn decimal(text: &[u8]) -> Option<(f64, usize, bool)> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    let mut fraction = 0;
    if text.get(whole) == Some(&b'.') {
        fraction = digits(whole + 1);
        length += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(text.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'-' | b'+')));
        let exponent = text.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let value: f64 = str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    let is_nothing = text[..length]
        .iter()
        .take_while(|byte| !matches!(byte, b'e' | b'E'))
        .all(|byte| matches!(byte, b'0' | b'.'));
    Some((value, length, value.is_infinite() || (value == 0.0 && !is_nothing)))
}

/// Reads hexadecimal digits with an optional binary exponent, and cuts digits beyond the precision of a double.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut value, mut scale, mut seen, mut length, mut in_fraction) = (0.0_f64, 0_i32, 0, 0, false);
    for &byte in text {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                seen += 1;
                value = value * 16.0 + f64::from(digit);
                scale -= if in_fraction { 4 } else { 0 };
            }
            None if byte == b'.' && !in_fraction => in_fraction = true,
            None => break,
        }
        length += 1;
    }
    if seen == 0 {
        return None;
    }
    if matches!(text.get(length), Some(b'p' | b'P')) {
        let rest = &text[length + 1..];
        let sign = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
        let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let text = str::from_utf8(&rest[..sign + digits]).ok()?;
            scale = scale.saturating_add(text.trim_start_matches('+').parse().unwrap_or(i32::MAX));
            length += 1 + sign + digits;
        }
    }
    Some((value * 2.0_f64.powi(scale), length))
}

/// Writes a double as a reply does.
pub(super) fn text_of(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    // Whole numbers below 2^53 have at most 16 digits, and no other way to be written.
    if value.fract() == 0.0
        && value.abs() < 9_007_199_254_740_992.0
        && !(value == 0.0 && value.is_sign_negative())
    {
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and fits")]
        return (value as i64).to_string();
    }
    general(value)
}

/// Formats a number as `%.17g`.
fn general(value: f64) -> String {
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|&digit| digit != '.').collect();
    let mut text = String::from(if value.is_sign_negative() { "-" } else { "" });
    if (-4..17).contains(&exponent) {
        let whole = if exponent < 0 { 0 } else { usize::try_from(exponent).unwrap_or(0) + 1 };
        let zeros = if exponent < 0 { usize::try_from(-exponent - 1).unwrap_or(0) } else { 0 };
        let fraction = format!("{}{}", "0".repeat(zeros), &digits[whole..]);
        let fraction = fraction.trim_end_matches('0');
        text += if whole == 0 { "0" } else { &digits[..whole] };
        if !fraction.is_empty() {
            text.push('.');
            text += fraction;
        }
    } else {
        let fraction = digits[1..].trim_end_matches('0');
        text += &digits[..1];
        if !fraction.is_empty() {
            text.push('.');
            text += fraction;
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "e{sign}{:02}", exponent.abs());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_spelling() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        for bad in ["", "-", "-0", "+1", " 1", "1 ", "01", "9223372036854775808", "1.0", "0x1", "1\0"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_double_is_parsed_as_in_c() {
        assert_eq!(double(b"1e3"), Some(1000.0));
        assert_eq!(double(b"+.5"), Some(0.5));
        assert_eq!(double(b"5."), Some(5.0));
        assert_eq!(double(b"-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(double(b"0x10"), Some(16.0));
        assert_eq!(double(b"0x1.8p1"), Some(3.0));
        for bad in ["", " 1", "1 ", "nan", "1e", "e1", ".", "1e400", "1e-400", "--1", "0x", "1\0"] {
            assert_eq!(double(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(lenient_double(b" 7"), Some(7.0));
        assert_eq!(lenient_double(b""), Some(0.0));
        assert_eq!(lenient_double(b"7x"), None);
    }

    #[test]
    fn a_double_is_written_with_seventeen_digits() {
        let expected = [
            (0.1, "0.10000000000000001"),
            (-0.0, "-0"),
            (3.0, "3"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.000_1, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (123_456_789.125, "123456789.125"),
            (922_337_203_685_477.0, "922337203685477"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in expected {
            assert_eq!(text_of(value), text);
        }
    }
}
