//! Names with values of arguments.
//!
//! Invariant: the generated code is `format!` of the user's own arguments, so the compiler checks every field and
//! format.

use leasehold_proto::{Name, NameError};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Expr, ExprLit, Lit, LitStr};

use crate::function::Function;
use crate::problems::Problems;
use crate::spans::ours_at;

/// A name's text, split at its values.
struct Template {
    /// The text for `format!`.
    format: String,
    values: Vec<TokenStream>,
    /// The name with one letter in place of each value.
    sample: String,
}

/// Generates the name, of the type `impl IntoName`.
pub(crate) fn name(value: &Expr, function: &Function, problems: &mut Problems) -> Option<TokenStream> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let template = problems.ok(read(text, function))?;
            let span = text.span();
            if template.values.is_empty() {
                return Some(text.to_token_stream());
            }
            let mut format = Literal::string(&template.format);
            format.set_span(span);
            let values = template.values;
            Some(quote_spanned!(span=> ::std::format!(#format, #(#values),*)))
        }
        Expr::Lit(other) => {
            problems.at(other, "a name is a string, such as `name = \"order:{order_id}\"`, or an expression");
            None
        }
        // The clone leaves the value to the body.
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => {
            Some(quote_spanned!(ours_at(value)=> ::core::clone::Clone::clone(&#value)))
        }
        made => Some(made.to_token_stream()),
    }
}

fn read(text: &LitStr, function: &Function) -> syn::Result<Template> {
    let problem = |message: String| Error::new_spanned(text, message);
    let written = text.value();
    let mut template = Template { format: String::new(), values: Vec::new(), sample: String::new() };
    let mut rest = written.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        template.text(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with('}') {
            let message = "a name cannot contain braces, because they choose a cluster slot; for a hash tag make the \
                           name yourself: `name = expression`, with `Name::with_hash_tag`";
            return Err(problem(message.to_owned()));
        }
        let Some((inside, after)) = rest[1..].split_once('}') else {
            return Err(problem(format!("`{rest}` has no closing brace")));
        };
        template.value(inside, text.span(), &function.values()).map_err(problem)?;
        rest = after;
    }
    template.text(rest);
    match Name::new(&template.sample) {
        Ok(_) => Ok(template),
        Err(error @ NameError::ReservedPrefix { .. }) => {
            Err(problem(format!("{error}; begin it with a word of your own")))
        }
        Err(error) => Err(problem(format!(
            "{error}; a name is 1 to 512 bytes without control characters, such as \"order:{{order_id}}\""
        ))),
    }
}

impl Template {
    fn text(&mut self, text: &str) {
        self.format.push_str(text);
        self.sample.push_str(text);
    }

    /// Parses the text between two braces: an argument, with optional fields and an optional format.
    fn value(&mut self, inside: &str, span: Span, known: &[String]) -> Result<(), String> {
        let (path, format) = inside.split_once(':').unwrap_or((inside, ""));
        let mut parts = path.trim().split('.');
        let argument = parts.next().unwrap_or_default();
        // A name in text has no `r#`, as in `format!`: `r#type` in code is `type` in text.
        let raw = format!("r#{argument}");
        let argument = if known.contains(&raw) { raw.as_str() } else { argument };
        let listed = listed(known);
        if argument.is_empty() || argument.parse::<usize>().is_ok() {
            return Err(format!("`{{{inside}}}` names no argument; {listed}"));
        }
        if !known.iter().any(|name| name == argument) {
            return Err(match identifier(argument, span) {
                Some(_) => format!("there is no argument `{argument}`; {listed}"),
                None => only_fields(inside),
            });
        }
        if format.contains('$') || format.contains(".*") {
            return Err(format!("`{{{inside}}}`: in a name, widths are numbers, such as `{{{path}:04}}`"));
        }
        let mut value = identifier(argument, span).ok_or_else(|| only_fields(inside))?.into_token_stream();
        for field in parts {
            let field = member(field, span).ok_or_else(|| only_fields(inside))?;
            value = quote_spanned!(span=> #value.#field);
        }
        self.values.push(value);
        self.sample.push('x');
        self.format.push_str(&if format.is_empty() { "{}".to_owned() } else { format!("{{:{format}}}") });
        Ok(())
    }
}

fn only_fields(inside: &str) -> String {
    format!(
        "`{{{inside}}}` is not an argument or a field of one; for anything else make the name yourself, such as \
         `name = format!(\"order:{{}}\", order.id())`"
    )
}

fn listed(known: &[String]) -> String {
    match known {
        [] => "the function has no arguments".to_owned(),
        known => {
            let all: Vec<_> = known.iter().map(|name| format!("`{{{name}}}`")).collect();
            format!("available: {}", all.join(", "))
        }
    }
}

fn identifier(word: &str, span: Span) -> Option<Ident> {
    if word == "self" {
        return Some(Ident::new(word, span));
    }
    let mut identifier = syn::parse_str::<Ident>(word).ok()?;
    identifier.set_span(span);
    Some(identifier)
}

/// Returns a field of a struct or of a tuple.
fn member(field: &str, span: Span) -> Option<TokenStream> {
    if let Ok(index) = field.parse::<usize>() {
        let mut index = Literal::usize_unsuffixed(index);
        index.set_span(span);
        return Some(index.into_token_stream());
    }
    if field == "self" {
        return None;
    }
    identifier(field, span)
        .or_else(|| identifier(&format!("r#{field}"), span))
        .map(ToTokens::into_token_stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> Result<String, String> {
        let function = "async fn charge<const N: usize>(&self, order_id: u64, Item { sku, .. }: Item, pair: (u8, u8), r#type: T) {}";
        let function: Function = syn::parse_str(function).unwrap();
        let mut problems = Problems::default();
        let value = syn::parse_str(name).unwrap();
        match super::name(&value, &function, &mut problems) {
            Some(code) => Ok(code.to_string()),
            None => Err(problems.messages().concat()),
        }
    }

    #[test]
    fn values_become_format_arguments() {
        for (name, values) in [
            (r#""order:{order_id}""#, r#""order:{}" , order_id"#),
            (r#""{self.shop.id}/{sku}""#, r#""{}/{}" , self . shop . id , sku"#),
            (r#""n:{order_id:04}:{N}""#, r#""n:{:04}:{}" , order_id , N"#),
            (r#""t:{type}{r#type}{type.match}""#, r#""t:{}{}{}" , r#type , r#type , r#type . r#match"#),
            (r#""p:{pair.0}{ pair.1 }""#, r#""p:{}{}" , pair . 0 , pair . 1"#),
        ] {
            assert_eq!(made(name), Ok(format!(":: std :: format ! ({values})")));
        }
    }

    #[test]
    fn a_name_is_a_plain_string_or_an_expression() {
        assert_eq!(made(r#""nightly""#), Ok(r#""nightly""#.to_owned()));
        assert_eq!(made("self.name()"), Ok("self . name ()".to_owned()));
        assert_eq!(made("self.name"), Ok(":: core :: clone :: Clone :: clone (& self . name)".to_owned()));
    }

    #[test]
    fn an_invalid_name_is_an_error() {
        for (name, says) in [
            (r#""""#, "the name is empty"),
            (r#""a\nb""#, "control character"),
            (r#""a{{b}}""#, "cannot contain braces"),
            (r#""a}b""#, "cannot contain braces"),
            (r#""a{order_id""#, "no closing brace"),
            (r#""a:{}""#, "available: `{self}`, `{order_id}`, `{sku}`, `{pair}`, `{r#type}`, `{N}`"),
            (r#""a:{0}""#, "names no argument"),
            (r#""a:{order}""#, "there is no argument `order`"),
            (r#""a:{order_id.id()}""#, "format!"),
            (r#""a:{order_id + 1}""#, "format!"),
            (r#""a:{order_id:w$}""#, "`{order_id:04}`"),
            (r#""a:{order_id:.*}""#, "`{order_id:04}`"),
            (r#""a:{order_id.self}""#, "format!"),
            (r#""redisson_lock_queue:{order_id}""#, "word of your own"),
            ("42", "a name is a string"),
        ] {
            let problem = made(name).unwrap_err();
            assert!(problem.contains(says), "{name}: {problem}");
        }
        assert!(made(&format!("{:?}", "x".repeat(513))).is_err());
    }
}
