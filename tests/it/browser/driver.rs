//! Owns the browser: a headless Chromium behind its own ChromeDriver, both ended with the test.
//! Screenshots go to the target folder, for people to check.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::key::Key;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::needs::{self, Need};
use crate::support::system::Process;
use crate::support::waits::until;

/// A window on a desk.
pub const DESKTOP: (u32, u32) = (1_280, 900);
/// The narrowest phone the contract names (4.4).
pub const PHONE: (u32, u32) = (360, 740);

const START_MAX: Duration = Duration::from_secs(30);

/// A browser with one window.
pub struct Browser {
    runtime: Runtime,
    client: Client,
    /// Ends after the browser, by its process.
    _driver: Process,
}

/// Errors: which program is not here.
fn installed() -> Result<(), String> {
    for program in ["chromium", "chromedriver"] {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            return Err(format!("no {program}"));
        }
    }
    Ok(())
}

/// The port that the driver has taken, from what it prints.
fn port_of(driver: &mut Child) -> String {
    let printed = BufReader::new(driver.stdout.as_mut().expect("a pipe"));
    let port = |line: String| {
        Some(line.strip_suffix('.')?.split_once("started successfully on port ")?.1.to_owned())
    };
    printed.lines().map_while(Result::ok).find_map(port).expect("chromedriver names its port")
}

impl Browser {
    /// Starts a browser with a window of this size; `None` where none is installed.
    pub fn start((width, height): (u32, u32)) -> Option<Self> {
        needs::require(Need::Browser, installed())?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver can be started");
        let port = port_of(&mut driver);
        let runtime = Runtime::new().expect("a runtime");
        let mut capabilities = Capabilities::new();
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        // A window narrower than some 500 points has to be a phone's.
        let options = json!({ "args": arguments, "mobileEmulation": (width < 500).then(|| json!({
            "deviceMetrics": { "width": width, "height": height, "pixelRatio": 2.0, "touch": true },
        })) });
        capabilities.insert("goog:chromeOptions".to_owned(), without_null(options));
        let url = format!("http://127.0.0.1:{port}");
        let client = until("the browser starts", START_MAX, || {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            runtime.block_on(builder.capabilities(capabilities.clone()).connect(&url)).ok()
        });
        Some(Self { runtime, client, _driver: Process(driver) })
    }

    pub fn goto(&self, url: &str) {
        self.runtime.block_on(self.client.goto(url)).expect("the page can be opened");
    }

    pub fn url(&self) -> String {
        self.runtime.block_on(self.client.current_url()).expect("there is a page").to_string()
    }

    /// The text of an element, if it is there now.
    pub fn text_of(&self, id: &str) -> Option<String> {
        self.runtime.block_on(async {
            let element = self.client.find(Locator::Id(id)).await.ok()?;
            element.text().await.ok()
        })
    }

    /// The text that the first such element shows; empty if there is none.
    pub fn text_in(&self, css: &str) -> String {
        let text = self.ask(&format!("return document.querySelector({css:?})?.innerText ?? ''"));
        text.as_str().expect("a text").to_owned()
    }

    pub fn click(&self, css: &str) {
        self.runtime.block_on(async {
            let element = self.client.find(Locator::Css(css)).await.expect("it is there");
            element.click().await.expect("it can be clicked");
        });
    }

    /// Chooses a file, as a person does in the browser's dialog.
    pub fn choose_file(&self, css: &str, file: &Path) {
        let file = file.to_str().expect("a text");
        self.runtime.block_on(async {
            let element = self.client.find(Locator::Css(css)).await.expect("it is there");
            element.send_keys(file).await.expect("it takes a file");
        });
    }

    /// Presses these keys, where the focus is.
    pub fn press(&self, keys: &[Key]) {
        let keys: String = keys.iter().map(|key| char::from(*key)).collect();
        self.type_text(&keys);
    }

    /// Moves the focus with the keyboard alone until it is on such an element.
    pub fn tab_to(&self, css: &str) {
        const STOPS_MAX: usize = 100;
        let is_there = format!("return document.activeElement.matches({css:?})");
        for _ in 0..STOPS_MAX {
            self.press(&[Key::Tab]);
            if self.ask(&is_there) == true {
                return;
            }
        }
        panic!("{STOPS_MAX} stops of the keyboard do not lead to {css}");
    }

    /// Types into the element that has the focus.
    pub fn type_text(&self, text: &str) {
        self.runtime.block_on(async {
            let element = self.client.active_element().await.expect("something has the focus");
            element.send_keys(text).await.expect("it takes keys");
        });
    }

    /// From now on the frame is looked at.
    pub fn enter_frame(&self) {
        self.runtime.block_on(async {
            let frame = self.client.find(Locator::Css("iframe")).await.expect("a frame");
            frame.enter_frame().await.expect("a frame can be entered");
        });
    }

    /// Selects the whole window for what follows.
    pub fn select_window(&self) {
        self.runtime.block_on(self.client.enter_parent_frame()).expect("there is a window");
    }

    /// The result of a test's script, whatever scripts the page allows.
    pub fn ask(&self, script: &str) -> Value {
        let asked = self.client.execute(script, Vec::new());
        self.runtime.block_on(asked).expect("scripts run")
    }

    /// The value that a script gives to its last argument, a function, when it has it.
    pub fn ask_later(&self, script: &str) -> Value {
        let asked = self.client.execute_async(script, Vec::new());
        self.runtime.block_on(asked).expect("scripts run")
    }

    /// How wide the content is, in points.
    pub fn page_width(&self) -> u64 {
        self.ask("return document.documentElement.scrollWidth").as_u64().expect("a number")
    }

    /// A command of Chrome's own protocol, for what WebDriver has no word for.
    pub fn command(&self, name: &'static str, parameters: Value) -> Value {
        let done = self.client.issue_cmd(ChromeCommand { name, parameters });
        self.runtime.block_on(done).expect("Chrome knows the command")
    }

    /// Gives the window this width, in points.
    pub fn resize(&self, width: u64) {
        let screen = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.command("Emulation.setDeviceMetricsOverride", screen);
    }

    pub fn cookies(&self) -> usize {
        self.runtime.block_on(self.client.get_all_cookies()).expect("cookies can be listed").len()
    }

    /// A picture of the window, in `target/screenshots`.
    pub fn screenshot(&self, name: &str) {
        let picture = self.runtime.block_on(self.client.screenshot()).expect("a picture");
        std::fs::write(pictures().join(format!("{name}.png")), picture)
            .expect("a picture is a file");
    }
}

/// Where pictures are kept for people.
pub fn pictures() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

#[derive(Debug)]
struct ChromeCommand {
    name: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for ChromeCommand {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (reqwest::Method, Option<String>) {
        let body = json!({ "cmd": self.name, "params": self.parameters });
        (reqwest::Method::POST, Some(body.to_string()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session.
        let _ = self.runtime.block_on(self.client.clone().close());
    }
}

fn without_null(mut options: serde_json::Value) -> serde_json::Value {
    if let Some(options) = options.as_object_mut() {
        options.retain(|_, value| !value.is_null());
    }
    options
}
