import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { firstAnswer } from "../../hack/first-model.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startHub } from "../doubles/hub.ts";
import { endOf } from "../support/command.ts";
import { greeting, makeRun, type Run } from "../support/make-run.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

describe("make run", () => {
  it("serves a model of its own, chats once before the reader, says what to try, and leaves nothing behind", async () => {
    await using directory = await tempDir();
    await using run = await greeted(directory.path);
    const text = run.text();
    const said = /primary is ready\. One streamed chat:\n\n {2}you: {5}Tell me something\n {2}primary: (.*)/.exec(text);
    assert.equal(said?.[1], firstAnswer);
    assert.match(text, /\(This answer is all that the first model can say\./);
    assert.match(text, /^starting the operator and the gateway; their files are in \S+\/run$/m);
    assert.ok(text.includes(`  API        ${run.url}/v1\n  dashboard  ${run.url}/\n`), text);
    // Both addresses open on a page of this clone.
    for (const [name, title] of [
      ["dashboard", "Berth"],
      ["chat", "Berth chat"],
    ]) {
      const url = new RegExp(`^ {2}${name} +(http\\S+)$`, "m").exec(text)?.[1] ?? assert.fail(text);
      assert.match(await (await fetch(url)).text(), new RegExp(`<title>${title}</title>`));
    }
    const [ports = "", status = "", chat = "", curl = ""] = triesOf(run);
    // They are what they say: run as they stand there, they work, and so does a command on this machine's files.
    assert.match(ports, /^export SVC_PORT=\d+ SVC_OPERATOR_PORT=\d+$/);
    assert.match(await shell(`${ports}; ${status}`), /^berth \S+/);
    assert.match(await shell(`${ports}; ${chat}`), /^\S+ .*\n$/);
    assert.match(await shell(`${ports}; bin/berth config validate`), /run\/config: valid\n$/);
    const [, url = "", body = ""] = /^curl (\S+) -H 'content-type: application\/json' -d '(.*)'$/.exec(curl) ?? [];
    const headers = { "content-type": "application/json" };
    const answer = await (await fetch(url, { method: "POST", headers, body })).text();
    assert.match(answer, /"object":"chat\.completion"/, curl);
    assert.equal(await run.interrupt(), 0);
    assert.equal(run.errors(), "");
    await assert.rejects(fetch(`${run.url}/livez`));
  });

  it("says how to get a token where tokens are required", async () => {
    await using directory = await tempDir();
    await using run = await greeted(directory.path, { SVC_AUTH_ENABLED: "1" });
    assert.match(run.text(), /Berth runs, and requires tokens \(SVC_AUTH_ENABLED=1\)/);
    const [ports = "", token = "", status = "", chat = ""] = triesOf(run);
    assert.match(await shell(`${ports}; ${token}; ${status}`), /^berth \S+/);
    await until("it is loaded", async () =>
      /^primary +(?:ready|idle)/m.test(await shell(`${ports}; ${token}; ${status}`)),
    );
    assert.match(await shell(`${ports}; ${token}; ${chat}`), /\S/);
    assert.equal(await run.interrupt(), 0);
  });

  it("serves a given model at its second start, and keeps the rest of a person's manifest", async () => {
    await using directory = await tempDir();
    const model = join(directory.path, "mine, größer.gguf");
    await writeTinyModel(model, { name: "mine" });
    {
      await using _first = await greeted(directory.path);
    }
    const manifest = join(directory.path, "run/config/slots/primary.toml");
    const before = `# Ours.\n${await readFile(manifest, "utf8")}`;
    await writeFile(manifest, before);
    await using run = await greeted(directory.path, { MODEL: model });
    assert.ok(!run.text().includes("first model can say"), run.text());
    assert.ok(run.text().includes(`${manifest}: its model is now mine-gr-er, as MODEL says; the rest of it stays\n`));
    const after = await readFile(manifest, "utf8");
    assert.equal(after, before.replace(/^default = .*$/m, 'default = "mine-gr-er"'));
    assert.notEqual(after, before);
    const slot = await (await fetch(`${run.url}/api/slots/primary`)).text();
    assert.match(slot, /"model":"mine-gr-er"/);
  });

  it("fetches the model of an address, serves it, and says what it wrote; keeps serving it where the next name is unknown", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "other.gguf");
    await writeTinyModel(file, { name: "other" });
    await using hub = await startHub({ "other.gguf": await readFile(file) });
    const env = { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" };
    const manifest = join(directory.path, "run/config/slots/primary.toml");
    {
      await using run = await greeted(directory.path, { ...env, MODEL: "hf://owner/repo/other.gguf" });
      assert.match(run.text(), /^other: queued/m);
      assert.ok(run.text().includes(`${manifest}: its model is now other, as MODEL says; the rest of it stays\n`));
      assert.match(await readFile(manifest, "utf8"), /^default = "other"$/m);
      assert.match(await (await fetch(`${run.url}/api/slots/primary`)).text(), /"model":"other"/);
    }
    const before = await readFile(manifest, "utf8");
    await using run = await greeted(directory.path, { ...env, MODEL: "nothing-such" });
    assert.match(
      run.errors(),
      /^make run: MODEL=nothing-such is not served, and primary keeps its model: model\.not_found: no model is called "nothing-such"/,
    );
    assert.equal(await readFile(manifest, "utf8"), before);
    assert.match(await (await fetch(`${run.url}/api/slots/primary`)).text(), /"model":"other"/);
  });

  it("greets with the first model while that of an address cannot be fetched, and switches once it is here", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "other.gguf");
    await writeTinyModel(file, { name: "other" });
    await using hub = await startHub({ "other.gguf": await readFile(file) });
    const { behave } = hub.server;
    hub.server.behave = (request) => request.socket.destroy();
    const env = { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0", MODEL: "hf://owner/repo/other.gguf" };
    await using run = await greeted(directory.path, env);
    assert.ok(run.text().includes(`primary: ${firstAnswer}`), run.text());
    assert.match(
      run.errors(),
      /^make run: MODEL=hf:\/\/owner\/repo\/other\.gguf cannot be fetched for now: .*; it is tried again for an hour, and primary switches to it by itself once it is here; until then it keeps its model\n$/,
    );
    hub.server.behave = behave;
    await until("it has switched", async () =>
      /"state":"(?:ready|idle)","model":"other"/.test(await (await fetch(`${run.url}/api/slots/primary`)).text()),
    );
    await until("it says so", () => run.text().includes("primary.toml: its model is now other, as MODEL says"));
  });
});

/** A `make run` that has greeted. */
async function greeted(directory: string, env: NodeJS.ProcessEnv = {}): Promise<Run> {
  const run = await makeRun(directory, env);
  await until("it greets", () => run.text().includes(greeting)).catch(async (error: unknown) => {
    await run.interrupt();
    throw new Error(`${run.text()}\n${run.errors()}`, { cause: error });
  });
  return run;
}

/** The lines that it says to try. */
function triesOf(run: Run): string[] {
  const tries = run.text().split("Try in another terminal:\n")[1]?.split("\n\n")[0] ?? "";
  return tries.split("\n").map((line) => line.trim());
}

/** What a line of shell prints. */
async function shell(line: string): Promise<string> {
  const { code, stdout, stderr } = await endOf("sh", ["-c", line], process.env);
  assert.equal(code, 0, `${line}: ${stderr}`);
  return stdout;
}
