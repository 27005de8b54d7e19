import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

interface Violation {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** The serious violations that axe finds on the page as it stands; `rules`: options of axe's `run`. */
export async function violations(page: Page, rules: object = {}): Promise<readonly string[]> {
  return told((await run(page, rules)).filter(({ impact }) => impact === "serious" || impact === "critical"));
}

/** All that axe finds, however small; `rules`: options of axe's `run`. */
export async function findings(page: Page, rules: object = {}): Promise<readonly string[]> {
  return told(await run(page, rules));
}

async function run(page: Page, rules: object): Promise<readonly Violation[]> {
  // Past the page's own policy, as a tool of a person who looks at it.
  if ((await page.evaluate("typeof axe")) === "undefined")
    await page.evaluate(await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  return await page.evaluate(`axe.run(${JSON.stringify(rules)}).then(({violations}) => violations)`);
}

function told(found: readonly Violation[]): readonly string[] {
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** None, light and dark: only colours differ in the dark. */
export async function assertAccessible(page: Page, where: string): Promise<void> {
  assert.deepEqual(await violations(page), [], where);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page, { runOnly: ["cat.color"] }), [], `${where}, dark`);
  await page.emulateMedia({ colorScheme: "light" });
}
