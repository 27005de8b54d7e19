import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { listen } from "../support/listen.ts";
import { greeting, makeRun } from "../support/make-run.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

describe("make run", () => {
  it("serves a model of its own, chats once before the reader, says what to try, and leaves nothing behind", async (t) => {
    await using directory = await tempDir();
    for (const turn of ["first", "second"]) {
      const began = performance.now();
      await using run = await makeRun(directory.path);
      await until("it greets", () => run.text().includes(greeting)).catch((error: unknown) => {
        throw new Error(`${run.text()}\n${run.errors()}`, { cause: error });
      });
      // 3 s is the aim of the second; a machine that does other things may need many times that.
      t.diagnostic(`the ${turn} start took ${((performance.now() - began) / 1000).toFixed(1)} s`);
      const text = run.text();
      const said = /primary is ready\. One streamed chat:\n\n {2}you: {5}Tell me something\n {2}primary: (.*)/.exec(
        text,
      );
      assert.ok((said?.[1] ?? "").trim().length > 0, text);
      assert.match(text, /The tiny model's weights are noise, so are its words\. make run MODEL=/);
      assert.ok(text.includes(`  API        ${run.url}/v1\n  dashboard  ${run.url}/\n`), text);
      // Both addresses open on a page of this clone.
      for (const [name, title] of [
        ["dashboard", "Berth"],
        ["chat", "Berth chat"],
      ]) {
        const url = new RegExp(`^ {2}${name} +(http\\S+)$`, "m").exec(text)?.[1] ?? assert.fail(text);
        assert.match(await (await fetch(url)).text(), new RegExp(`<title>${title}</title>`));
      }
      const tries = text.split("Try in another terminal:\n")[1]?.split("\n\n")[0] ?? "";
      const [ports = "", status = "", chat = "", curl = ""] = tries.split("\n").map((line) => line.trim());
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
    }
  });

  it("says how to get a token where tokens are required", async () => {
    await using directory = await tempDir();
    await using run = await makeRun(directory.path, { SVC_AUTH_ENABLED: "1" });
    await until("it greets", () => run.text().includes(greeting));
    assert.match(run.text(), /Berth runs, and requires tokens \(SVC_AUTH_ENABLED=1\)/);
    const tries = run.text().split("Try in another terminal:\n")[1]?.split("\n\n")[0] ?? "";
    const [ports = "", token = "", status = "", chat = ""] = tries.split("\n").map((line) => line.trim());
    assert.match(await shell(`${ports}; ${token}; ${status}`), /^berth \S+/);
    await until("it is loaded", async () =>
      /^primary +(?:ready|idle)/m.test(await shell(`${ports}; ${token}; ${status}`)),
    );
    assert.match(await shell(`${ports}; ${token}; ${chat}`), /\S/);
    assert.equal(await run.interrupt(), 0);
  });

  it("serves a given model, and keeps the rest of a person's manifest", async () => {
    await using directory = await tempDir();
    const model = join(directory.path, "mine, größer.gguf");
    await writeTinyModel(model, { name: "mine" });
    {
      await using first = await makeRun(directory.path);
      await until("it greets", () => first.text().includes(greeting));
    }
    const manifest = join(directory.path, "run/config/slots/primary.toml");
    const before = `# Ours.\n${await readFile(manifest, "utf8")}`;
    await writeFile(manifest, before);
    await using run = await makeRun(directory.path, { MODEL: model });
    await until("it greets", () => run.text().includes(greeting));
    assert.ok(!run.text().includes("weights are noise"), run.text());
    const after = await readFile(manifest, "utf8");
    assert.equal(after, before.replace(/^default = .*$/m, 'default = "mine-gr-er"'));
    assert.notEqual(after, before);
    const slot = await (await fetch(`${run.url}/api/slots/primary`)).text();
    assert.match(slot, /"model":"mine-gr-er"/);
  });

  it("prints the cause and the remedy in one line", async () => {
    await using directory = await tempDir();
    const page = join(directory.path, "page.gguf");
    await writeFile(page, "<!doctype html><title>not found</title>");
    const taken = createServer();
    const port = String(await listen(taken));
    try {
      const rows: readonly (readonly [env: NodeJS.ProcessEnv, line: RegExp])[] = [
        [{ SVC_PORT: port }, new RegExp(`^make run: port ${port} is taken; .*SVC_PORT=8090 make run\n$`)],
        [
          { SVC_OPERATOR_PORT: port },
          new RegExp(`^make run: port ${port}, the operator's, is taken: .*SVC_OPERATOR_PORT=8078`),
        ],
        [{ SVC_PORT: "many" }, /^make run: SVC_PORT=many is not a port; choose one from 1024 to 65535\n$/],
        [{ SVC_OPERATOR_PORT: "x" }, /^make run: SVC_OPERATOR_PORT=x is not a port; choose one from 1024 to 65535\n$/],
        [{ SVC_RUNTIME: "podman" }, /^make run: SVC_RUNTIME=podman is nothing that make run has; .*SVC_RUNTIME=docker/],
        [
          { SVC_PORT: port, SVC_OPERATOR_PORT: port },
          new RegExp(`^make run: port ${port} is the operator's \\(SVC_OPERATOR_PORT\\); choose another: `),
        ],
        [{ SVC_HOST: "192.0.2.1" }, /^make run: SVC_HOST=192\.0\.2\.1 is not an address of this machine; [^\n]+\n$/],
        [
          { MODEL: "/nowhere/m.gguf" },
          /^make run: MODEL=\/nowhere\/m\.gguf is not there; give the path of a GGUF file\n$/,
        ],
        [
          { MODEL: "hf://owner/repo/model.gguf" },
          /^make run: MODEL=hf:\/\/owner\/repo\/model\.gguf is an address; give the path of a GGUF file, or .* bin\/berth model pull hf:\/\/owner\/repo\/model\.gguf\n$/,
        ],
        [{ MODEL: directory.path }, /^make run: MODEL=\S+ is a directory; give the path of a GGUF file\n$/],
        [
          { MODEL: page },
          /^make run: MODEL=\S+page\.gguf is no GGUF file: it does not begin with GGUF; give the path of a GGUF file\n$/,
        ],
      ];
      for (const [env, line] of rows) {
        await using run = await makeRun(directory.path, env);
        assert.equal(await run.ended, 1, JSON.stringify(env));
        assert.match(run.errors(), line);
        assert.equal(run.text(), "");
      }
    } finally {
      taken.close();
    }
  });
});

/** What a line of shell prints. */
async function shell(line: string): Promise<string> {
  const child = spawn("sh", ["-c", line], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (errors += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, `${line}: ${errors}`);
  return text;
}
