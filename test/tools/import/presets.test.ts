import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { importSite } from "./site.ts";

describe("berth config import llama-server", () => {
  it("makes a slot of each preset, with the values of [*]", async () => {
    await using site = await importSite();
    const { code, left } = await site.import("llama-server FIXTURES/models.ini --yes");
    const manifests = await site.manifests();
    assert.equal(code, 0);
    assert.deepEqual(Object.keys(manifests), [
      "models/Qwen3-8B-Q4_K_M.yaml",
      "models/bge-m3.yaml",
      "slots/bge.yaml",
      "slots/ggml-org-gemma-3-4b-it-gguf-q4-k.yaml",
      "slots/qwen3-8b.yaml",
    ]);
    assert.equal(
      manifests["slots/qwen3-8b.yaml"],
      'model:\n  default: Qwen3-8B-Q4_K_M\n  contextSize: 8192\n  parallel: 2\nargs:\n  - --flash-attn\n  - "on"\nenv:\n  LLAMA_ARG_CACHE_RAM: "0"\n',
    );
    assert.equal(
      manifests["models/Qwen3-8B-Q4_K_M.yaml"],
      "files:\n  - source: file:///srv/models/Qwen3-8B-Q4_K_M.gguf\n  - source: file:///srv/models/mmproj-F16.gguf\n",
    );
    assert.equal(
      manifests["slots/bge.yaml"],
      `capabilities:
  - embeddings
load: onDemand
idleSeconds: 900
model:
  default: bge-m3
  contextSize: 8192
args:
  - --flash-attn
  - "on"
  - --no-mmap
  - --no-kv-unified
stopSeconds: 20
`,
    );
    assert.match(
      manifests["slots/ggml-org-gemma-3-4b-it-gguf-q4-k.yaml"] ?? "",
      /^engine: custom\ncommand:\n {2}- llama-server\n[^]*- --hf-repo\n {2}- ggml-org\/gemma-3-4b-it-GGUF:Q4_K_M\n {2}- --host\n {2}- \$\(HOST\)\n {2}- --port\n {2}- \$\(PORT\)\n[^]*aliases:\n {2}- ggml-org\/gemma-3-4b-it-GGUF:Q4_K_M\n/,
    );
    assert.doesNotMatch(JSON.stringify(manifests), /sk-fixture/);
    assert.deepEqual(left.slice(0, 4), [
      "FIXTURES/models.ini:19: [ggml-org/gemma-3-4b-it-GGUF:Q4_K_M]: llama-server fetches this model itself, unseen by Berth; `berth model pull` and model.default would let Berth judge its memory",
      "FIXTURES/models.ini:21: [ggml-org/gemma-3-4b-it-GGUF:Q4_K_M] api-key: its value is not carried: Berth gives each engine a new key per start, and clients tokens (`berth token create`)",
      "FIXTURES/models.ini:23: [bge] emb/bge-m3.gguf: a relative path: taken as FIXTURES/emb/bge-m3.gguf",
      "FIXTURES/models.ini:29: [bge] host: Berth decides where engines listen",
    ]);
  });

  it("writes no key that a preset has under its variable's name", async () => {
    await using site = await importSite();
    const file = join(site.path, "models.ini");
    await writeFile(
      file,
      "[a]\nmodel = /srv/a.gguf\nLLAMA_API_KEY = fixture-key\ntemplate = sk-fixture-key-000\nx-auth-token = fixture-key\n",
    );
    const { left, stdout } = await site.import(`llama-server ${file} --yes`);
    assert.match(left[0] ?? "", /^DIR\/models\.ini:3: \[a\] LLAMA_API_KEY: it looks like a secret/);
    assert.doesNotMatch(stdout + JSON.stringify(await site.manifests()), /fixture-key/);
  });

  it("shares four places among more presets, as the router does", async () => {
    await using site = await importSite();
    const { left } = await site.import("llama-server FIXTURES/many.ini --yes");
    const manifests = await site.manifests();
    assert.equal(manifests["groups/llama-server.yaml"], "budget:\n  slots: 4\n");
    assert.equal(
      manifests["slots/a.yaml"],
      "group: llama-server\nload: onDemand\nidleSeconds: 0\nmodel:\n  default: a\n",
    );
    assert.equal(manifests["slots/f.yaml"], "model:\n  default: f\n", "it is loaded at the start, and never leaves");
    assert.equal(
      manifests["models/c.yaml"],
      "files:\n  - source: file:///srv/models/c-00001-of-00002.gguf\n  - source: file:///srv/models/c-00002-of-00002.gguf\n",
    );
    assert.deepEqual(left.slice(0, 2), [
      "FIXTURES/many.ini:1: --models-max: the router's command line is in no preset: group llama-server has its default, 4 models at once",
      "FIXTURES/many.ini:10: [e]: the model is not carried: it names paths of Windows",
    ]);
  });

  it("says that two sections have one name", async () => {
    await using site = await importSite();
    const file = join(site.path, "models.ini");
    await writeFile(file, "[a]\nmodel = /srv/a.gguf\n[a]\nmodel = /srv/b.gguf\n");
    const { left } = await site.import(`llama-server ${file} --yes`);
    assert.ok(left.includes("DIR/models.ini:3: [a]: line 1 has that name, too: a slot of its own"), left.join("\n"));
    assert.deepEqual(
      Object.keys(await site.manifests()).filter((path) => path.startsWith("slots/")),
      ["slots/a-2.yaml", "slots/a.yaml"],
    );
  });

  for (const [what, text, message] of [
    [
      "a line that is no setting",
      "[a]\nmodel = a.gguf\nsk-secret-text\n",
      "DIR/models.ini:3: it is neither [section] nor key = value",
    ],
    ["a file without a model", "[*]\nc = 1\n", "DIR/models.ini:1: it has no section of a model, such as [qwen3-4b]"],
    ["an empty file", "", "DIR/models.ini:1: it has no section of a model, such as [qwen3-4b]"],
  ] as const)
    it(`refuses ${what}`, async () => {
      await using site = await importSite();
      await writeFile(join(site.path, "models.ini"), text);
      const { code, stdout, stderr } = await site.import(`llama-server ${join(site.path, "models.ini")} --yes`);
      assert.deepEqual(
        { code, stdout, stderr },
        { code: 1, stdout: "", stderr: `import.unreadable: ${message}\nnothing was written\n` },
      );
    });
});
