//! Bar charts as SVG text.

use std::fmt::Write as _;

/// The values beyond whose ratio an axis is logarithmic.
const LINEAR: f64 = 50.0;
/// The widths of the labels, of the longest bar and of the picture, in pixels.
const LABELS: f64 = 150.0;
const LONGEST: f64 = 480.0;
const WIDTH: f64 = 740.0;
/// The heights of a bar with its gap, and of a title.
const BAR: f64 = 18.0;
const TITLE: f64 = 34.0;

/// A bar of a panel.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) text: String,
    pub(super) is_ours: bool,
}

/// A chart of one workload.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

/// Returns a picture of all panels, one below the other.
pub(super) fn svg(title: &str, panels: &[Panel]) -> String {
    let mut body = String::new();
    let mut top = 10.0;
    for panel in panels {
        let scale = Scale::of(panel);
        let note = if scale.is_logarithmic { " (logarithmic)" } else { "" };
        text(&mut body, 10.0, top + 18.0, "title", &format!("{}{note}", panel.title));
        top += TITLE;
        for bar in &panel.bars {
            let length = scale.length(bar.value);
            let class = if bar.is_ours { "ours" } else { "peer" };
            text(&mut body, LABELS - 8.0, top + 11.0, "label", &bar.label);
            let _ = writeln!(
                body,
                "<rect class=\"{class}\" x=\"{LABELS:.0}\" y=\"{top:.0}\" width=\"{length:.1}\" height=\"14\"/>"
            );
            text(&mut body, LABELS + length + 6.0, top + 11.0, "value", &bar.text);
            top += BAR;
        }
        top += 10.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{top:.0}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>text{{font:12px sans-serif;fill:#222}}.title{{font-weight:bold}}.label{{text-anchor:end}}\
         .ours{{fill:#b7410e}}.peer{{fill:#8899aa}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
        escape(title)
    )
}

/// The scale of a panel's axis.
struct Scale {
    is_logarithmic: bool,
    /// The largest value, and the one that a logarithmic bar of no length would have.
    largest: f64,
    origin: f64,
}

impl Scale {
    fn of(panel: &Panel) -> Self {
        let values = panel.bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0);
        let (least, largest) = values
            .fold((f64::INFINITY, 0.0_f64), |(least, largest), value| (least.min(value), largest.max(value)));
        Self { is_logarithmic: largest > least * LINEAR, largest, origin: least / 2.0 }
    }

    fn length(&self, value: f64) -> f64 {
        if value <= 0.0 || self.largest <= 0.0 {
            return 0.0;
        }
        let share = if self.is_logarithmic {
            (value / self.origin).ln() / (self.largest / self.origin).ln()
        } else {
            value / self.largest
        };
        share * LONGEST
    }
}

fn text(body: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = writeln!(body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(values: &[f64]) -> Panel {
        let bar = |value: &f64| Bar {
            label: "a<b".to_owned(),
            value: *value,
            text: value.to_string(),
            is_ours: false,
        };
        Panel { title: "one & two".to_owned(), bars: values.iter().map(bar).collect() }
    }

    #[test]
    fn the_largest_value_is_the_longest_bar() {
        let scale = Scale::of(&panel(&[10.0, 5.0]));
        assert!((scale.length(10.0) - LONGEST).abs() < 1e-9);
        assert!((scale.length(5.0) - LONGEST / 2.0).abs() < 1e-9);
    }

    #[test]
    fn values_far_apart_have_a_logarithmic_axis_without_negative_bars() {
        let scale = Scale::of(&panel(&[100_000.0, 1.0, 0.0]));
        assert!(scale.is_logarithmic);
        assert!((scale.length(100_000.0) - LONGEST).abs() < 1e-9);
        assert!(scale.length(1.0) > 0.0 && scale.length(0.0).abs() < f64::EPSILON);
        assert!(!Scale::of(&panel(&[])).is_logarithmic);
    }

    #[test]
    fn texts_are_escaped() {
        let picture = svg("t", &[panel(&[1.0])]);
        assert!(picture.contains("a&lt;b") && picture.contains("one &amp; two"), "{picture}");
    }
}
