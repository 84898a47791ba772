//! Small pieces of markup: escaped text, names of engines, tables.

use crate::result::{Arm, Row};

/// `text` escaped for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            other => safe.push(other),
        }
    }
    safe
}

/// A name for an anchor or a class, of letters, digits and dashes only.
pub fn slug(parts: &[&str]) -> String {
    let text = parts.join("--");
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    text.chars().map(plain).collect()
}

/// The CSS class that gives an engine's elements their colour, and hides them if it is not checked.
pub fn class(engine: &str) -> String {
    format!("e e-{}", slug(&[engine]))
}

/// An engine's name on the page.
pub fn name(row: &Row) -> String {
    match row.arm {
        Arm::Equal => escape(&row.engine),
        Arm::Defaults => format!("{} <small>defaults</small>", escape(&row.engine)),
    }
}

/// A short line in the engine's colour and dashes: the legend of all charts.
pub const SWATCH: &str = "<svg class=swatch width=22 height=10 aria-hidden=true>\
    <line class=s x1=1 y1=5 x2=21 y2=5 /></svg>";

/// A table that scrolls sideways if it is wider than the screen; the cells are markup. Each cell
/// names its column, so that a line can be laid out as a block on a narrow screen.
pub fn table(caption: &str, header: &[&str], lines: &[(String, Vec<String>)]) -> String {
    let mut text = format!(
        "<div class=scroll tabindex=0 role=region aria-label=\"{0}\"><table>\
         <caption><span>{0}</span></caption><thead><tr>",
        escape(caption)
    );
    for cell in header {
        text += &format!("<th scope=col>{}</th>", escape(cell));
    }
    text += "</tr></thead><tbody>";
    for (class, cells) in lines {
        text += &format!("<tr class=\"{class}\">");
        for (index, cell) in cells.iter().enumerate() {
            match index {
                0 => text += &format!("<th scope=row>{cell}</th>"),
                _ => {
                    let label = header.get(index).copied().unwrap_or("");
                    text += &format!("<td data-l=\"{}\">{cell}</td>", escape(label));
                }
            }
        }
        text += "</tr>";
    }
    text + "</tbody></table></div>"
}
