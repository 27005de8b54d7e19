import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { startBerth, type RunningBerth } from "../support/berth.ts";

const candidates = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const double = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

/** Debian's Chromium, which `make test-browser` installs. */
export async function openBrowser(...more: readonly string[]): Promise<Browser> {
  const executablePath = process.env["BERTH_TEST_CHROMIUM"] ?? candidates.find((path) => existsSync(path));
  assert.ok(executablePath !== undefined, "there is no Chromium: `make test-browser` installs Debian's");
  return await chromium.launch({
    executablePath,
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
  context.setDefaultTimeout(60_000);
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

/** A slot on the engine DOUBLE. */
export function slotManifest(...flags: readonly string[]): string {
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", double, ...flags];
  return `engine = "custom"\ncommand = ${JSON.stringify(command)}\n`;
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
