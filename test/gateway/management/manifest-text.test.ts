import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { refusalOf } from "./fixture.ts";

const text = '# kept\nengine = "custom"\ncommand = ["sleep", "1"]\n';

interface Edited extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly file: string;
  readonly url: string;
  source(): Promise<{ file: string; text: string; hash: string; read_only: string | null }>;
  put(text: string, hash: string): Promise<Response>;
}

async function withManifest(content = text, name = "coder.toml"): Promise<Edited> {
  await using stack = new AsyncDisposableStack();
  const { path: configDir } = stack.use(await tempDir());
  await mkdir(join(configDir, "slots"));
  const file = join(configDir, "slots", name);
  await writeFile(file, content);
  const spec = { engine: "custom" as const, command: ["sleep", "1"] };
  const slots = { coder: { spec }, other: { spec } };
  const gateway = stack.use(await startGateway({ slots, env: { SVC_CONFIG_DIR: configDir } }));
  const url = `${gateway.url}/api/slots/coder/manifest`;
  const owned = stack.move();
  return {
    gateway,
    file,
    url,
    source: async () => JSON.parse(await (await fetch(url)).text()),
    put: async (next, hash) =>
      await fetch(url, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: next, hash }),
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("the text of a manifest over the API", () => {
  it("is read with its comments, and written as it is sent, over no other person's edit", async () => {
    await using edited = await withManifest();
    const source = await edited.source();
    assert.deepEqual(source, { file: "slots/coder.toml", text, hash: source.hash, read_only: null });
    const next = `${text}idle_seconds = 7 # new\n`;
    assert.equal((await edited.put(next, source.hash)).status, 202);
    assert.equal(await readFile(edited.file, "utf8"), next);
    const { is } = await refusalOf(await edited.put(text, source.hash));
    assert.equal(is, "409 config.changed");
    assert.equal(await readFile(edited.file, "utf8"), next);
  });

  it("is refused where it is faulty, or holds a command while everybody may write", async () => {
    await using edited = await withManifest();
    const { hash } = await edited.source();
    for (const [next, told] of [
      [`${text}idle_secnds = 7\n`, /^422 .*slots\/coder\.toml:4.*idle_seconds/],
      [text.replace("sleep", "rm"), /^403 .*command.*SVC_API_EXEC/],
      ["[[[", /^422 .*slots\/coder\.toml:1/],
    ] as const) {
      const { is, message } = await refusalOf(await edited.put(next, hash));
      assert.match(`${is}: ${message}`, told);
    }
    assert.equal(await readFile(edited.file, "utf8"), text);
  });

  it("is refused for a file of several documents, where a text could change what the caller may not", async () => {
    const yaml = (name: string): string =>
      `apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: ${name}}\nspec: {engine: custom, command: [sleep, "1"]}\n`;
    await using edited = await withManifest(`${yaml("coder")}---\n${yaml("other")}`, "all.yaml");
    const { hash } = await edited.source();
    const response = await edited.put(`${yaml("coder")}# only this one\n`, hash);
    const { is, message } = await refusalOf(response);
    assert.match(`${is}: ${message}`, /^422 .*nothing else/);
  });

  it("says why it may not be written, and is 404 where there is no manifest", async () => {
    await using edited = await withManifest();
    await writeFile(join(edited.file, "../../.berth-read-only"), "");
    const source = await edited.source();
    assert.match(source.read_only ?? "", /berth-read-only/);
    assert.equal((await edited.put(`${text}#\n`, source.hash)).status, 409);
    assert.equal((await fetch(`${edited.gateway.url}/api/slots/other/manifest`)).status, 404);
  });
});
