//! Pages that refer to no other file.

/// Creates a page with a body.
pub(crate) fn frame(title: &str, heading: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{heading}</h1>\n{body}</html>\n"
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
                     padding:0 1rem}pre{font:13px/1.35 monospace;overflow-x:auto}h2{font-size:1rem}\
                     h3{font:inherit}\
                     svg{max-width:100%;height:auto}";

/// Escapes text for a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
