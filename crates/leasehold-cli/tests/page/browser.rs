//! A headless Chromium, driven over a pair of pipes by the DevTools protocol.
//!
//! Invariant: a browser has a profile of its own and ends with its value.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use leasehold_testkit::wait::eventually;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The time for each step, far more than it takes.
const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    process: Child,
    commands: File,
    answers: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What the page has written to its console, and the errors of its scripts.
    console: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with one empty page.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = profile.path().join(name);
            mkfifo(&path, Mode::S_IRWXU).unwrap();
            // A pipe that is open for both does not wait for its other end.
            (File::options().read(true).write(true).open(&path).unwrap(), path)
        };
        let ((commands, to), (answers, from)) = (pipe("commands"), pipe("answers"));
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                      --remote-debugging-pipe --user-data-dir=\"$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let process = Command::new("sh")
            .args(["-c", script, "chromium"])
            .args([&to, &from, &profile.path().join("profile")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let (tell, told) = channel();
        thread::spawn(move || {
            let mut answers = BufReader::new(answers);
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if tell.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            commands,
            answers: told,
            last: 0,
            session: None,
            console: Vec::new(),
            _profile: profile,
        };
        let page = browser.send("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.send("Target.attachToTarget", &attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.send(domain, &json!({}));
        }
        browser
    }

    /// Sends a command, and returns its result.
    fn send(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&command).unwrap();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let answer = self.answers.recv_timeout(SOON);
            let answer = answer.unwrap_or_else(|_| panic!("no answer to {method}; is chromium installed?"));
            if answer["id"] == json!(self.last) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            let console = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
            if answer["method"].as_str().is_some_and(|method| console.contains(&method)) {
                self.console.push(answer["params"].to_string());
            }
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.send("Page.navigate", &json!({ "url": url }));
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        self.evaluated(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn evaluated(&mut self, expression: &str) -> Result<Value, Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.send("Runtime.evaluate", &params);
        let error = &result["exceptionDetails"];
        if error.is_null() { Ok(result["result"]["value"].clone()) } else { Err(error.clone()) }
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        // A page that is still loading has none of its elements.
        eventually(SOON, expression, || self.evaluated(expression) == Ok(json!(true)));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let code = match key {
                "Enter" => 13,
                "Escape" => 27,
                "Tab" => 9,
                "ArrowDown" => 40,
                "ArrowUp" => 38,
                _ => 0,
            };
            let event = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.send("Input.dispatchKeyEvent", &event);
        }
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        text.chars().for_each(|letter| self.press(&letter.to_string()));
    }

    /// Chooses the size of the screen, and dark or light colors.
    pub(crate) fn show_as(&mut self, (width, height): (u32, u32), colors: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700 });
        self.send("Emulation.setDeviceMetricsOverride", &size);
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": colors }] });
        self.send("Emulation.setEmulatedMedia", &media);
    }

    /// Writes a picture of the screen, if the tester wants pictures.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("PICTURES") else { return };
        let picture = self.send("Page.captureScreenshot", &json!({ "format": "png" }));
        let bytes = decoded(picture["data"].as_str().unwrap());
        std::fs::write(Path::new(&folder).join(name), bytes).unwrap();
    }

    /// Returns what the page has complained about.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.console
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let bits: Vec<u8> = text.bytes().filter_map(value).collect();
    let group = |group: &[u8]| {
        let number = group.iter().fold(0_u32, |number, bits| number << 6 | u32::from(*bits))
            << (6 * (4 - group.len()));
        number.to_be_bytes()[1..group.len()].to_vec()
    };
    bits.chunks(4).flat_map(group).collect()
}
