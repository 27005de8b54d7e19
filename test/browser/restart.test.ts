import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { list, record } from "../support/openai.ts";
import { childOf } from "../support/child-of.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, live, openBrowser, openPage, slotManifest, type WatchedPage } from "./browser.ts";

const slots = {
  coder: slotManifest(),
  // It speaks for minutes, unless somebody stops it.
  slow: slotManifest("--tokens", "4000", "--token-ms", "50"),
};

/** What the slow one says first. */
const begun = /token0 token1 token2/;

/** The dashboard, and the chat page in the middle of an answer. */
async function openBoth(
  browser: Browser,
  berth: RunningBerth,
): Promise<AsyncDisposable & { readonly dashboard: Page; readonly chat: Page }> {
  await berth.state("coder", "ready", "idle");
  await berth.state("slow", "ready", "idle");
  await using stack = new AsyncDisposableStack();
  const open = async (url: string): Promise<WatchedPage> => stack.use(await openPage(browser, url));
  const { page: dashboard } = await open(berth.url);
  await live(dashboard);
  const { page: chat } = await open(`${berth.url}/chat/`);
  await chat.getByRole("combobox", { name: "Model" }).selectOption("slow");
  await chat.getByRole("textbox", { name: "Message" }).fill("a long story");
  await chat.keyboard.press("Enter");
  const answer = chat.getByRole("article", { name: "slow" });
  await until("the answer has begun", async () => begun.test((await answer.textContent()) ?? ""));
  const owned = stack.move();
  return { dashboard, chat, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function isCutOff(chat: Page): Promise<string> {
  const answer = chat.getByRole("article", { name: "slow" });
  await answer.getByText("The connection to Berth was lost before the end of the answer. Retry asks again.").waitFor();
  const said = (await answer.textContent()) ?? "";
  assert.match(said, begun);
  return said;
}

/** The chat page knows again what its server has, and has it keep what was cut off; a retry is answered. */
async function isBack(chat: Page, berth: RunningBerth): Promise<void> {
  await chat.locator(".bar").getByText("Ready", { exact: true }).waitFor();
  await until("the server keeps it", async () => {
    const [kept] = list(record(await berth.get("/api/conversations"))["data"]);
    return kept?.["title"] === "a long story";
  });
  await chat.getByRole("button", { name: "Retry" }).click();
  const answer = chat.getByRole("article", { name: "slow" });
  await until("another answer has begun", async () => {
    const text = (await answer.textContent()) ?? "";
    return text.length > 20 && !text.includes("was lost");
  });
  await chat.getByRole("button", { name: "Stop" }).click();
  await chat.getByText("Stopped.").waitFor();
}

const readyCard = async (dashboard: Page): Promise<void> =>
  await dashboard.getByRole("listitem", { name: "coder" }).getByText("Ready", { exact: true }).waitFor();

describe("pages that are open", () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser.close());

  it("come back when the gateway alone is killed, and started again by berth up", async () => {
    await using own = await berthWith(slots);
    await using open = await openBoth(browser, own);
    const { dashboard, chat } = open;
    // Said for less than a second perhaps.
    await dashboard.evaluate(
      "window.said = new Set(); new MutationObserver(() => window.said.add(document.querySelector('header [role=status]').textContent)).observe(document.querySelector('header'), { subtree: true, childList: true, characterData: true })",
    );
    process.kill(childOf(own.child, "serve"), "SIGKILL");
    await isCutOff(chat);
    await until("the dashboard has said so", async () => {
      const said: readonly string[] = await dashboard.evaluate("[...window.said]");
      return said.some((text) => text.startsWith("not connected; trying again."));
    });
    await live(dashboard);
    await readyCard(dashboard);
    await isBack(chat, own);
  });

  it("continue when the operator alone is killed, and say which facts about slots are unknown without it", async () => {
    await using own = await berthWith(slots);
    await using open = await openBoth(browser, own);
    const { dashboard, chat } = open;
    const operator = childOf(own.child, "operator");
    // Stopped first: so it is not started again before the page can say anything.
    process.kill(operator, "SIGSTOP");
    await dashboard
      .getByRole("listitem", { name: "coder" })
      .getByText(/no heartbeat of the operator/)
      .waitFor();
    await live(dashboard);
    const answer = chat.getByRole("article", { name: "slow" });
    const before = ((await answer.textContent()) ?? "").length;
    process.kill(operator, "SIGKILL");
    await dashboard
      .getByRole("listitem", { name: "coder" })
      .getByText(/no heartbeat of the operator/)
      .waitFor({ state: "detached" });
    await readyCard(dashboard);
    await until("the answer went on", async () => ((await answer.textContent()) ?? "").length > before);
    await chat.getByRole("button", { name: "Stop" }).click();
    await chat.getByText("Stopped.").waitFor();
  });

  it("come back when the whole of berth up is killed, and started again", async () => {
    await using own = await berthWith(slots);
    await using open = await openBoth(browser, own);
    const { dashboard, chat } = open;
    await dashboard.evaluate("window.isSame = true");
    await chat.evaluate("window.isSame = true");
    const parts = [childOf(own.child, "serve"), childOf(own.child, "operator")];
    // A stopped supervisor starts neither again, and neither is told of its end: they would end their work in order.
    own.child.kill("SIGSTOP");
    for (const pid of parts) process.kill(pid, "SIGKILL");
    own.child.kill("SIGKILL");
    assert.equal(await own.ended, null);
    await isCutOff(chat);
    await dashboard.getByText(/^not connected; trying again\./).waitFor();
    await dashboard.getByRole("listitem", { name: "coder" }).getByRole("button", { name: "Unload" }).click();
    await dashboard
      .getByRole("alert")
      .getByText(/does not answer|cannot be reached/)
      .waitFor();
    await chat.getByRole("textbox", { name: "Message" }).fill("kept while the server is gone");
    await using again = await startBerth({ env: own.env });
    await live(dashboard);
    await readyCard(dashboard);
    await isBack(chat, again);
    assert.equal(await chat.getByRole("textbox", { name: "Message" }).inputValue(), "kept while the server is gone");
    // Nobody has loaded them again.
    for (const page of [dashboard, chat]) assert.equal(await page.evaluate("window.isSame"), true);
  });
});
