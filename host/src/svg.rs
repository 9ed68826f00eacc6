//! SVG by hand: the few shapes that the pictures of this workspace are made of.

use std::fmt::Write;

/// A point: to the right and down, in pixels.
pub type Point = (f64, f64);

/// A picture under way.
#[derive(Clone, Debug)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// A white picture of that size; `attributes` hold for all of it, e.g. the font.
    pub fn new((width, height): Point, attributes: &str) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" {attributes}>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        Self { text }
    }

    /// An element as it is written.
    pub fn raw(&mut self, element: &str) {
        self.text.push_str(element);
        self.text.push('\n');
    }

    /// Words at their left end, or as `text-anchor` among the attributes says.
    pub fn text(&mut self, (x, y): Point, attributes: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.write(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>"));
    }

    /// A line.
    pub fn line(&mut self, (x1, y1): Point, (x2, y2): Point, attributes: &str) {
        self.write(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {attributes}/>"
        ));
    }

    /// A rectangle, by its upper left corner and its size.
    pub fn rect(&mut self, (x, y): Point, (width, height): Point, attributes: &str) {
        self.write(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {attributes}/>"
        ));
    }

    /// A circle.
    pub fn circle(&mut self, (x, y): Point, radius: f64, attributes: &str) {
        self.write(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {attributes}/>"));
    }

    /// The whole picture.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn write(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("a string takes everything");
    }
}
