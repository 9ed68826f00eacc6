//! Plots as SVG: lines over logarithmic axes, panels one below the other.

use crate::sizes::human_bytes;
use symmem::svg::Svg;

/// Width of the picture and height of a panel.
const WIDTH: f64 = 860.0;
const PANEL_HEIGHT: f64 = 400.0;
/// From the edges of a panel to its frame.
const LEFT: f64 = 95.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 45.0;
const BOTTOM: f64 = 60.0;
/// Most labels of an axis.
const TICKS_MAX: usize = 9;
/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Powers of two, labelled KiB, MiB, GiB.
    Bytes,
    /// Powers of ten, labelled as they are; the unit stands in the axis' label.
    Decimal,
}

/// An axis, logarithmic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// What it shows, with the unit.
    pub(crate) label: &'static str,
    pub(crate) unit: Unit,
}

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Points; those that are not above 0 have no place on a logarithmic axis and are left out.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines over two axes.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis from its lowest to its highest tick, and where that is in the picture.
struct Scale {
    unit: Unit,
    /// Exponents of the unit's base.
    low: i32,
    high: i32,
    /// Positions of `low` and `high`.
    from: f64,
    to: f64,
}

/// The picture of some panels.
pub(crate) fn svg(panels: &[Panel]) -> String {
    let height = PANEL_HEIGHT * panels.len() as f64;
    let mut out = Svg::new((WIDTH, height), "font-family=\"sans-serif\" font-size=\"13\"");
    for (n, panel) in panels.iter().enumerate() {
        out.raw(&format!("<g transform=\"translate(0 {})\">", PANEL_HEIGHT * n as f64));
        panel.draw(&mut out);
        out.raw("</g>");
    }
    out.finish()
}

impl Panel {
    fn draw(&self, out: &mut Svg) {
        let (right, bottom) = (WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Scale::over(points().map(|point| point.0), self.x.unit, LEFT, right);
        let y = Scale::over(points().map(|point| point.1), self.y.unit, bottom, TOP);
        text(out, ((LEFT + right) / 2.0, TOP - 18.0), "middle", "font-size=\"15\"", &self.title);
        for tick in x.ticks() {
            let at = x.at_exponent(tick);
            line(out, (at, TOP), (at, bottom));
            text(out, (at, bottom + 18.0), "middle", "", &x.label(tick));
        }
        for tick in y.ticks() {
            let at = y.at_exponent(tick);
            line(out, (LEFT, at), (right, at));
            text(out, (LEFT - 8.0, at + 4.0), "end", "", &y.label(tick));
        }
        text(out, ((LEFT + right) / 2.0, bottom + 42.0), "middle", "", self.x.label);
        let turned = format!("transform=\"rotate(-90 20 {})\"", (TOP + bottom) / 2.0);
        text(out, (20.0, (TOP + bottom) / 2.0), "middle", &turned, self.y.label);
        for (n, series) in self.series.iter().enumerate() {
            series.draw(out, &x, &y, n);
        }
    }
}

impl Series {
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(move |&(x, y)| has_place(x) && has_place(y))
    }

    /// The `n`-th line, with its name beside the frame.
    fn draw(&self, out: &mut Svg, x: &Scale, y: &Scale, n: usize) {
        let colour = COLOURS[n % COLOURS.len()];
        let places: Vec<_> = self.drawn().map(|point| (x.at(point.0), y.at(point.1))).collect();
        let corners: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let corners = corners.join(" ");
        out.raw(&format!(
            "<polyline points=\"{corners}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        ));
        for (x, y) in places {
            out.circle((x, y), 3.5, &format!("fill=\"{colour}\""));
        }
        let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 12.0 + 20.0 * n as f64);
        out.circle((x, y - 4.5), 4.5, &format!("fill=\"{colour}\""));
        let is_nothing = !self.points.is_empty() && self.points.iter().all(|point| point.1 == 0.0);
        let name = if is_nothing { format!("{}: always 0", self.name) } else { self.name.clone() };
        text(out, (x + 12.0, y), "start", "", &name);
    }
}

impl Scale {
    /// Around all values that have a place; one decade or octave where there are none.
    fn over(values: impl Iterator<Item = f64>, unit: Unit, from: f64, to: f64) -> Self {
        let exponents: Vec<f64> =
            values.filter(|&value| has_place(value)).map(|value| unit.exponent(value)).collect();
        let low = exponents.iter().copied().reduce(f64::min).unwrap_or(0.0).floor() as i32;
        let high = exponents.iter().copied().reduce(f64::max).unwrap_or(0.0).ceil() as i32;
        Self { unit, low, high: high.max(low + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (self.unit.exponent(value) - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + (self.to - self.from) * part
    }

    fn at_exponent(&self, exponent: i32) -> f64 {
        self.at(self.unit.base().powi(exponent))
    }

    /// Exponents that have a label.
    fn ticks(&self) -> impl Iterator<Item = i32> {
        let span = (self.high - self.low) as usize;
        (self.low..=self.high).step_by(span.div_ceil(TICKS_MAX - 1).max(1))
    }

    fn label(&self, exponent: i32) -> String {
        match (self.unit, exponent) {
            (Unit::Bytes, 0..63) => human_bytes(1 << exponent),
            (_, 0..7) => format!("{}", self.unit.base().powi(exponent)),
            (_, -3..0) => format!("{:.*}", -exponent as usize, self.unit.base().powi(exponent)),
            _ => format!("1e{exponent}"),
        }
    }
}

impl Unit {
    fn base(self) -> f64 {
        match self {
            Self::Bytes => 2.0,
            Self::Decimal => 10.0,
        }
    }

    fn exponent(self, value: f64) -> f64 {
        match self {
            Self::Bytes => value.log2(),
            Self::Decimal => value.log10(),
        }
    }
}

fn has_place(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

fn line(out: &mut Svg, from: (f64, f64), to: (f64, f64)) {
    out.line(from, to, "stroke=\"#ccc\"");
}

fn text(out: &mut Svg, at: (f64, f64), anchor: &str, attributes: &str, words: &str) {
    out.text(at, &format!("text-anchor=\"{anchor}\" {attributes}"), words);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: Vec<(f64, f64)>) -> Panel {
        Panel {
            title: "a < b & c".into(),
            x: Axis { label: "size", unit: Unit::Bytes },
            y: Axis { label: "time (us)", unit: Unit::Decimal },
            series: vec![
                Series { name: "one".into(), points },
                Series { name: "none".into(), points: vec![] },
            ],
        }
    }

    /// Every tag is closed in its order, and text holds no bare `<` or `&`.
    fn check_xml(text: &str) {
        let mut open = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let words = &rest[..start];
            let entities = ["&amp;", "&lt;", "&gt;"];
            assert_eq!(
                words.matches('&').count(),
                entities.iter().map(|entity| words.matches(entity).count()).sum::<usize>()
            );
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
            match (tag.strip_prefix('/'), tag.ends_with('/')) {
                (Some(name), _) => assert_eq!(open.pop(), Some(name)),
                (None, false) => open.push(tag.split(' ').next().expect("a name")),
                (None, true) => {}
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty() && rest.trim().is_empty());
    }

    #[test]
    fn is_xml_whatever_is_drawn() {
        for points in [
            vec![],
            vec![(8.0, 0.5)],
            vec![(8.0, 2.0), (1024.0, 300.0), (64.0, 0.0), (0.0, 1.0), (16.0, f64::NAN)],
        ] {
            let text = svg(&[panel(points.clone()), panel(points)]);
            check_xml(&text);
            assert!(text.contains("a &lt; b &amp; c") && text.contains("time (us)"), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn points_lie_where_their_ticks_are() {
        let scale = Scale::over([3e6, 5e9].into_iter(), Unit::Bytes, 100.0, 500.0);
        assert_eq!((scale.low, scale.high), (21, 33));
        assert_eq!((scale.at(2_f64.powi(21)), scale.at(2_f64.powi(33))), (100.0, 500.0));
        assert_eq!(scale.at(2_f64.powi(27)), 300.0);
        let labels: Vec<_> = scale.ticks().map(|tick| scale.label(tick)).collect();
        assert_eq!(labels, ["2 MiB", "8 MiB", "32 MiB", "128 MiB", "512 MiB", "2 GiB", "8 GiB"]);
        let scale = Scale::over([0.02, 300.0].into_iter(), Unit::Decimal, 0.0, 1.0);
        let labels: Vec<_> = scale.ticks().map(|tick| scale.label(tick)).collect();
        assert_eq!(labels, ["0.01", "0.1", "1", "10", "100", "1000"]);
    }
}
