import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { site, type Site } from "./fixture.ts";

const text = '# kept\nengine = "custom"\ncommand = ["sleep", "1"]\n';
const file = "slots/coder.toml";
const path = "/api/slots/coder/manifest";

describe("the text of a manifest over the API", () => {
  let at: Site;
  before(async () => {
    const spec = { engine: "custom" as const, command: ["sleep", "1"] };
    at = await site({ slots: { coder: { spec }, other: { spec }, twin: { spec } } });
    await at.declare(file, text);
  });
  after(() => at[Symbol.asyncDispose]());

  it("is refused where it is faulty, or holds a command while everybody may write", async () => {
    const { hash } = await at.got(path);
    for (const [next, told] of [
      [`${text}idle_secnds = 7\n`, /^422 .*slots\/coder\.toml:4.*idle_seconds/],
      [text.replace("sleep", "rm"), /^403 .*command.*SVC_API_EXEC/],
      ["[[[", /^422 .*slots\/coder\.toml:1/],
    ] as const) {
      const { is, message } = await at.refused("PUT", path, { text: next, hash });
      assert.match(`${is}: ${message}`, told);
    }
    assert.equal(await at.written(file), text);
    assert.match((await at.refused("GET", "/api/slots/other/manifest")).is, /^404 /, "it has none");
  });

  it("is read with its comments, and written as it is sent, over no other person's edit", async () => {
    const source = await at.got(path);
    assert.deepEqual(source, { file, text, hash: source["hash"], read_only: null });
    const next = `${text}idle_seconds = 7 # new\n`;
    assert.equal((await at.send("PUT", path, { text: next, hash: source["hash"] })).status, 202);
    assert.equal((await at.refused("PUT", path, { text, hash: source["hash"] })).is, "409 config.changed");
    assert.equal(await at.written(file), next);
  });

  it("is refused for a file of several documents, where a text could change what the caller may not", async () => {
    const yaml = (name: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: ${name}}\nspec: {engine: custom, command: [sleep, "1"]}\n`;
    await at.declare("slots/all.yaml", `${yaml("other")}---\n${yaml("twin")}`);
    const { hash } = await at.got("/api/slots/twin/manifest");
    const body = { text: `${yaml("twin")}# only this one\n`, hash };
    const { is, message } = await at.refused("PUT", "/api/slots/twin/manifest", body);
    assert.match(`${is}: ${message}`, /^422 .*nothing else/);
  });

  it("says why it may not be written", async () => {
    await at.declare(".berth-read-only", "");
    const { hash, read_only: why } = await at.got(path);
    assert.match(String(why), /berth-read-only/);
    assert.match((await at.refused("PUT", path, { text: `${text}#\n`, hash })).is, /^409 /);
  });
});
