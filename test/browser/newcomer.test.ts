import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";

/** What a browser has of an element; the tests' own types know no browser. */
interface Shown {
  readonly ownerDocument: {
    createRange(): { selectNodeContents(node: unknown): void; getClientRects(): { readonly length: number } };
    readonly defaultView: { getComputedStyle(node: unknown): { readonly backgroundColor: string } };
  };
}

function linesOf(element: Shown): number {
  const all = element.ownerDocument.createRange();
  all.selectNodeContents(element);
  return all.getClientRects().length;
}

const colourOf = (element: Shown): string =>
  element.ownerDocument.defaultView.getComputedStyle(element).backgroundColor;

describe("a person who sees the pages for the first time", () => {
  let browser: Browser;
  let empty: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    empty = await berthWith({});
  });
  after(async () => {
    await browser.close();
    await empty[Symbol.asyncDispose]();
  });

  it("is told in the chat where a model comes from, and is offered nothing that cannot work", async () => {
    await using opened = await openPage(browser, `${empty.url}/chat/`);
    const { page } = opened;
    await page.getByText(/^No model can chat here yet: the page Models of the dashboard has some/).waitFor();
    // Built-in slots that nobody has configured could transcribe and draw.
    assert.equal(await page.getByRole("button", { name: "Record" }).count(), 0);
    const options = page.getByRole("combobox", { name: "Model" }).getByRole("option");
    assert.deepEqual(await options.allTextContents(), ["none yet"]);
    await page.getByRole("link", { name: "Models" }).click();
    await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
  });

  it("reads why a built-in slot does nothing", async () => {
    await using opened = await openPage(browser, empty.url);
    const { page } = opened;
    const rest = page.getByText(/^Not set up: .* A built-in slot does nothing until it is given a model/);
    await rest.getByRole("link", { name: "stt" }).click();
    await page.getByText(/no manifest configures this slot/).waitFor();
    await page.getByText(/^Nothing is wrong: this slot is built in/).waitFor();
  });

  it("has a built-in slot hold a model that is here, without a terminal", async () => {
    await using own = await startBerth({});
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    const first = page.getByRole("region", { name: "First steps" });
    await first.getByText(/There is no model yet/).waitFor();
    // Copied by another person, without an event.
    await writeTinyModel(join(own.modelsDir, "tiny.gguf"));
    await writeTinyModel(join(own.modelsDir, "vectors.gguf"), { embedding: true });
    await until("the models are known", async () => {
      const { data } = record(await own.get("/api/models"));
      return list(data).length === 2;
    });
    await first.getByText(/There is a model, and no slot holds it yet/).waitFor();
    await first.getByRole("link", { name: "primary" }).click();
    await page.getByRole("link", { name: "Set up" }).click();
    const model = page.getByRole("combobox", { name: "Model to hold" });
    await model.waitFor();
    assert.deepEqual(await model.getByRole("option").allTextContents(), ["a model …", "tiny"]);
    await model.selectOption("tiny");
    await page.getByRole("button", { name: "Set up" }).click();
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    await manifest.waitFor();
    assert.match(await manifest.inputValue(), /default = "tiny"/);
    await page.goto(`${own.url}/ui/slots/stt/manifest`);
    await page.getByText(/^No model is here yet that this slot could hold/).waitFor();
  });

  it("reads whole words on a phone, and sees which button cannot be pressed", async () => {
    const viewport = { width: 360, height: 640 };
    await using opened = await openPage(browser, `${empty.url}/ui/models`, { viewport });
    const { page } = opened;
    const catalogue = page.getByRole("list", { name: "Catalogue" });
    await catalogue.getByRole("listitem").first().waitFor();
    const kinds = page.getByRole("group", { name: "Kind of model" }).getByRole("button");
    for (const word of [...(await kinds.all()), ...(await catalogue.getByRole("button").all())])
      assert.equal(await word.evaluate(linesOf), 1, (await word.textContent()) ?? "");
    const colour = async (name: string): Promise<string> =>
      await page.getByRole("button", { name, exact: true }).evaluate(colourOf);
    const off = await colour("Find");
    await page.getByRole("textbox", { name: "Model, repository or address" }).fill("qwen3:4b");
    await until("the button looks as if it can be pressed", async () => (await colour("Find")) !== off);
    assert.notEqual(off, await colour("Pull qwen3-4b"));
  });

  it("prints a whole conversation, in dark on light, without what can be pressed", async () => {
    await using own = await berthWith({ coder: slotManifest("--tokens", "900") });
    await own.state("coder", "ready", "idle");
    const viewport = { width: 800, height: 400 };
    await using opened = await openPage(browser, `${own.url}/chat/`, { viewport, colorScheme: "dark" });
    const { page } = opened;
    await page.getByRole("textbox", { name: "Message" }).fill("a long story");
    // A click waits until a model is chosen, before which nothing is sent.
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await page.emulateMedia({ media: "print" });
    const messages = page.getByRole("log", { name: "Messages" });
    const hidden: number = await messages.evaluate(
      (box: { scrollHeight: number; clientHeight: number }) => box.scrollHeight - box.clientHeight,
    );
    assert.equal(hidden, 0);
    assert.equal(await page.getByRole("button").count(), 0);
    assert.equal(await page.getByRole("textbox", { name: "Message" }).count(), 0);
    const ground: string = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor");
    assert.equal(ground, "rgb(247, 248, 250)");
  });
});
