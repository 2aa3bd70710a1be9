//! Recipes whose grants are held by the rules of another recipe.

pub mod adopt;
pub mod upgrade;
