import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";

const candidates = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const double = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

/** Debian's Chromium, which `make test-browser` installs. */
export async function openBrowser(...more: readonly string[]): Promise<Browser> {
  const executablePath = process.env["BERTH_TEST_CHROMIUM"] ?? candidates.find((path) => existsSync(path));
  assert.ok(executablePath !== undefined, "there is no Chromium: `make test-browser` installs Debian's");
  return await chromium.launch({
    executablePath,
    // A busy machine starts it slowly.
    timeout: 180_000,
    // Its sandbox needs what containers and root do not have; it opens nothing but pages of the test.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--use-fake-device-for-media-stream", ...more],
  });
}

/** A page that fails its test for any error of a script and any breach of its content security policy. */
export interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  readonly errors: readonly string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions & { readonly expected?: RegExp } = {},
): Promise<WatchedPage> {
  const { expected = /^$/, ...rest } = options;
  const context = await browser.newContext(rest);
  // A machine that runs other suites too is slow.
  context.setDefaultTimeout(180_000);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text()) && !expected.test(message.text()))
      errors.push(message.text());
  });
  page.on("dialog", (dialog) => void dialog.accept());
  await page.goto(url);
  return {
    page,
    errors,
    async [Symbol.asyncDispose]() {
      await context.close();
      assert.deepEqual(errors, []);
    },
  };
}

/** Waits until the dashboard follows its server: it says so only while it does not. */
export async function live(page: Page): Promise<void> {
  await page.locator("header [role=status]:empty").waitFor({ state: "attached" });
}

/** A slot on the engine DOUBLE. */
export function slotManifest(...flags: readonly string[]): string {
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", double, ...flags];
  return `engine = "custom"\ncommand = ${JSON.stringify(command)}\n`;
}

/** A slot on the DOUBLE of a modality: it hears, says and draws nothing real. */
export function slotOnDouble(model: string, file: string, ...flags: readonly string[]): string {
  const path = fileURLToPath(new URL(`../doubles/${file}`, import.meta.url));
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", path, ...flags];
  return `command = ${JSON.stringify(command)}\n[model]\ndefault = "${model}"\n`;
}

/** A whole Berth with these slots, by name. */
export async function berthWith(
  slots: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv = {},
): Promise<RunningBerth> {
  return await startBerth({
    env,
    prepare: async ({ configDir }) => {
      for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
}

/** A new token, as a person on the machine makes it. */
export async function makeToken({ env }: RunningBerth, label = "ada", scope = "admin"): Promise<string> {
  const made = await runBerth(["token", "create", "--label", label, "--scope", scope], env);
  return /svc_\S+/.exec(made.stdout)?.[0] ?? assert.fail(made.stderr);
}

/** An expression: the name of the focused control, as a person would call it. */
const focused =
  "(() => { const at = document.activeElement; return at.ariaLabel ?? at.labels?.[0]?.textContent.trim() ?? at.textContent; })()";

/** Moves the focus by the keyboard to the control of that name. */
export async function tabTo(page: Page, name: RegExp, key = "Tab"): Promise<void> {
  const met: string[] = [];
  for (let count = 0; count < 300; count += 1) {
    await page.keyboard.press(key);
    const text: string = await page.evaluate(focused);
    if (name.test(text)) return;
    met.push(text);
  }
  assert.fail(`${key} does not reach ${String(name)}: ${met.join(" | ")}`);
}
