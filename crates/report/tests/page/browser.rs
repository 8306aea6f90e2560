//! Headless Chromium, controlled by the DevTools protocol over a pair of pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest time for an answer; slower machines cannot run the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages that may wait to be read; beyond that the browser blocks.
const MESSAGES: usize = 1024;

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next_id: u64,
    session: String,
    /// Console messages of the page, and messages of the browser about it.
    pub(crate) complaints: Vec<String>,
}

/// Screen and media of the page.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Browser {
    /// Starts Chromium with a new profile in `profile`.
    pub(crate) fn start(profile: &Path) -> Self {
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
                      --no-first-run --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<&0 4>&1 </dev/null >&2";
        let mut process = Command::new("sh")
            .args(["-c", script])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let commands = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = sync_channel(MESSAGES);
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while answers.read_until(0, &mut text).is_ok_and(|count| count > 0) {
                text.pop();
                let Ok(message) = serde_json::from_slice(&text) else { break };
                if sender.send(message).is_err() {
                    break;
                }
                text.clear();
            }
        });
        let mut browser =
            Self { process, commands, messages, next_id: 1, session: String::new(), complaints: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, page: &Path) {
        let url = format!("file://{}", page.display());
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{answer}");
        let ready = "new Promise(done => document.readyState === 'complete' ? done(true) : addEventListener('load', () => done(true)))";
        assert_eq!(self.evaluate(ready), json!(true));
    }

    /// Sets the screen and the media of the page.
    pub(crate) fn look(&mut self, look: Look) {
        let metrics =
            json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": look.width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if look.dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// A picture of the top of the page, as PNG.
    pub(crate) fn screenshot(&mut self, width: u32, height: u32) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let answer = self
            .call("Page.captureScreenshot", &json!({ "format": "png", "clip": clip, "captureBeyondViewport": true }));
        decoded(&answer)
    }

    /// The page as printed.
    pub(crate) fn pdf(&mut self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", &json!({ "preferCSSPageSize": true, "printBackground": true }));
        decoded(&answer)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("chromium reads commands");
        loop {
            let mut message = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!("no answer to {method}; is the Debian package chromium installed ('cargo xtask prerequisites')?")
            });
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.hear(&message);
        }
    }

    /// Records events that a page must not cause.
    fn hear(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.complaints.push(parameters.to_string());
            }
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                if !url.starts_with("file://") && url != "about:blank" {
                    self.complaints.push(format!("the page requested {url}"));
                }
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its children end with it, because the pipes between them close.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn decoded(answer: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
}
