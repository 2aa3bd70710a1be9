//! The library `struct`: values packed into bytes and back.
//!
//! Invariant: values are little-endian and unaligned unless the format chooses otherwise, as on every machine that runs
//! Redisson's scripts.

use mlua::{Lua, MultiValue, Table, Value};

use super::errors::complain;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set(
        "pack",
        lua.create_function(|lua, words| pack(lua, words).map_err(|fault| fault.raise(lua)))?,
    )?;
    library.raw_set(
        "unpack",
        lua.create_function(|lua, words| unpack(lua, words).map_err(|fault| fault.raise(lua)))?,
    )?;
    library
        .raw_set("size", lua.create_function(|lua, words| size(words).map_err(|fault| fault.raise(lua)))?)?;
    Ok(library)
}

/// One step of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// An integer of this number of bytes.
    Integer {
        bytes: usize,
        signed: bool,
    },
    Float,
    Double,
    /// A byte without a value.
    Padding,
    /// A text of this number of bytes. With zero it is the whole text, or the number of bytes that the preceding number
    /// gives.
    Text(usize),
    /// Text up to a zero byte.
    Ended,
}

/// A reader of a format.
struct Format<'a> {
    rest: std::slice::Iter<'a, u8>,
    big: bool,
    align: usize,
}

/// The error of the arguments.
struct Fault(String);

impl Fault {
    fn raise(self, lua: &Lua) -> mlua::Error {
        complain(lua, &self.0)
    }
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self(error.to_string())
    }
}

fn fault(text: impl Into<String>) -> Fault {
    Fault(text.into())
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { rest: text.iter(), big: false, align: 1 }
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.as_slice().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = str::from_utf8(&self.rest.as_slice()[..digits]).ok()?;
        let number = text.parse().ok();
        self.rest = self.rest.as_slice()[digits..].iter();
        number
    }

    fn integer(&mut self, default: usize, signed: bool) -> Result<Step, Fault> {
        let bytes = self.number().unwrap_or(default);
        if bytes > 32 {
            return Err(fault(format!("integral size {bytes} is larger than limit of 32")));
        }
        Ok(Step::Integer { bytes, signed })
    }

    fn next(&mut self, function: &str) -> Result<Option<Step>, Fault> {
        while let Some(&letter) = self.rest.next() {
            let fixed = |bytes| Step::Integer { bytes, signed: letter.is_ascii_lowercase() };
            return Ok(Some(match letter {
                b'b' | b'B' => fixed(1),
                b'h' | b'H' => fixed(2),
                b'l' | b'L' | b'T' => fixed(8),
                b'i' => self.integer(4, true)?,
                b'I' => self.integer(4, false)?,
                b'f' => Step::Float,
                b'd' => Step::Double,
                b'x' => Step::Padding,
                b'c' => Step::Text(self.number().unwrap_or(1)),
                b's' => Step::Ended,
                b' ' => continue,
                b'>' => {
                    self.big = true;
                    continue;
                }
                b'<' => {
                    self.big = false;
                    continue;
                }
                b'!' => {
                    self.align = self.number().unwrap_or(8);
                    if !self.align.is_power_of_two() {
                        return Err(fault("alignment is not a power of 2"));
                    }
                    continue;
                }
                other => {
                    let why = format!("invalid format option '{}'", char::from(other));
                    return Err(bad(1, function, &why));
                }
            }));
        }
        Ok(None)
    }

    /// Returns the number of padding bytes before a step at this place.
    fn gap(&self, step: Step, at: usize) -> usize {
        let bytes = step_size(step);
        let align = bytes.min(self.align);
        if align <= 1 || matches!(step, Step::Text(_) | Step::Ended) {
            0
        } else {
            (align - (at & (align - 1))) & (align - 1)
        }
    }
}

const fn step_size(step: Step) -> usize {
    match step {
        Step::Integer { bytes, .. } | Step::Text(bytes) => bytes,
        Step::Float => 4,
        Step::Double => 8,
        Step::Padding => 1,
        Step::Ended => 0,
    }
}

fn ordered(mut bytes: Vec<u8>, big: bool) -> Vec<u8> {
    if big {
        bytes.reverse();
    }
    bytes
}

fn bad(at: usize, function: &str, why: &str) -> Fault {
    fault(format!("bad argument #{at} to '{function}' ({why})"))
}

fn number(value: Option<&Value>, at: usize) -> Result<f64, Fault> {
    let text = match value {
        Some(Value::Integer(number)) => {
            #[allow(clippy::cast_precision_loss, reason = "it came from a double")]
            return Ok(*number as f64);
        }
        Some(Value::Number(number)) => return Ok(*number),
        Some(Value::String(text)) => {
            str::from_utf8(&text.as_bytes()).ok().and_then(|text| text.trim().parse().ok())
        }
        _ => None,
    };
    let found = value.map_or("nil", |value| value.type_name());
    text.ok_or_else(|| bad(at, "pack", &format!("number expected, got {found}")))
}

fn text(words: &MultiValue, at: usize, function: &str) -> Result<Vec<u8>, Fault> {
    let value = words.get(at - 1);
    let found = value.map_or("no value", |value| value.type_name());
    value
        .and_then(super::values::argument)
        .ok_or_else(|| bad(at, function, &format!("string expected, got {found}")))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as C converts")]
fn integer_bytes(number: f64, bytes: usize) -> Vec<u8> {
    let bits = if number < 0.0 { (number as i64).cast_unsigned() } else { number as u64 };
    (0..bytes).map(|at| if at < 8 { (bits >> (8 * at)) as u8 } else { 0 }).collect()
}

fn pack(lua: &Lua, words: MultiValue) -> Result<Value, Fault> {
    let format = text(&words, 1, "pack")?;
    let mut format = Format::new(&format);
    let (mut out, mut at) = (Vec::new(), 1);
    while let Some(step) = format.next("pack")? {
        out.resize(out.len() + format.gap(step, out.len()), 0);
        at += usize::from(step != Step::Padding);
        let number = || number(words.get(at - 1), at);
        match step {
            Step::Padding => out.push(0),
            Step::Integer { bytes, .. } => out.extend(ordered(integer_bytes(number()?, bytes), format.big)),
            #[allow(clippy::cast_possible_truncation, reason = "a float is what was asked for")]
            Step::Float => out.extend(ordered((number()? as f32).to_le_bytes().to_vec(), format.big)),
            Step::Double => out.extend(ordered(number()?.to_le_bytes().to_vec(), format.big)),
            Step::Text(wanted) => {
                let given = text(&words, at, "pack")?;
                let wanted = if wanted == 0 { given.len() } else { wanted };
                let part = given.get(..wanted).ok_or_else(|| bad(at, "pack", "string too short"))?;
                out.extend_from_slice(part);
            }
            Step::Ended => {
                out.extend(text(&words, at, "pack")?);
                out.push(0);
            }
        }
    }
    Ok(Value::String(lua.create_string(out)?))
}

#[allow(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
fn integer_of(bytes: &[u8], signed: bool, big: bool) -> f64 {
    let ordered = ordered(bytes.to_vec(), big);
    let bits =
        ordered.iter().take(8).enumerate().fold(0, |bits, (at, &byte)| bits | u64::from(byte) << (8 * at));
    if !signed {
        return bits as f64;
    }
    let unused = 64 - 8 * u32::try_from(bytes.len().min(8)).unwrap_or(8);
    if unused == 64 { 0.0 } else { (bits.cast_signed() << unused >> unused) as f64 }
}

fn unpack(lua: &Lua, words: MultiValue) -> Result<MultiValue, Fault> {
    let format = text(&words, 1, "unpack")?;
    let data = text(&words, 2, "unpack")?;
    let start = words.get(2).and_then(Value::as_usize).unwrap_or(1);
    let mut format = Format::new(&format);
    let mut at = start.saturating_sub(1);
    let mut values: Vec<Value> = Vec::new();
    while let Some(step) = format.next("unpack")? {
        at += format.gap(step, at);
        let mut length = step_size(step);
        let short = || bad(2, "unpack", "data string too short");
        if step == Step::Text(0) {
            let before = values.pop().and_then(|value| value.as_f64());
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was packed as a length"
            )]
            let before = before.ok_or_else(|| fault("format 'c0' needs a previous size"))? as usize;
            length = before;
        }
        let rest = data.get(at..).ok_or_else(short)?;
        if step == Step::Ended {
            let end =
                rest.iter().position(|&byte| byte == 0).ok_or_else(|| fault("unfinished string in data"))?;
            values.push(Value::String(lua.create_string(&rest[..end])?));
            at += end + 1;
            continue;
        }
        let part = rest.get(..length).ok_or_else(short)?;
        let eight = || -> [u8; 8] { ordered(part.to_vec(), format.big).try_into().unwrap_or_default() };
        let four = || -> [u8; 4] { ordered(part.to_vec(), format.big).try_into().unwrap_or_default() };
        match step {
            Step::Integer { signed, .. } => values.push(Value::Number(integer_of(part, signed, format.big))),
            Step::Float => values.push(Value::Number(f32::from_le_bytes(four()).into())),
            Step::Double => values.push(Value::Number(f64::from_le_bytes(eight()))),
            Step::Text(_) => values.push(Value::String(lua.create_string(part)?)),
            Step::Padding | Step::Ended => {}
        }
        at += length;
    }
    #[allow(clippy::cast_precision_loss, reason = "no text is that long")]
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

fn size(words: MultiValue) -> Result<usize, Fault> {
    let format = text(&words, 1, "size")?;
    let mut format = Format::new(&format);
    let mut total = 0;
    while let Some(step) = format.next("size")? {
        total += format.gap(step, total);
        match step {
            Step::Ended => return Err(bad(1, "size", "variable-size format 's'")),
            Step::Text(0) => return Err(bad(1, "size", "variable-length format 'c0'")),
            step => total += step_size(step),
        }
    }
    Ok(total)
}
