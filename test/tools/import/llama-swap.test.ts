import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readManifests } from "../../../src/store/files/manifest.ts";
import { importSite, noServer } from "./site.ts";

const page = new URL("../../../docs/groups.md", import.meta.url);

/** What texts declare, by kind and name. */
function declared(files: Readonly<Record<string, string>>): Record<string, unknown> {
  const all = Object.entries(files).flatMap(([file, text]) => readManifests(file, text));
  return Object.fromEntries(all.map(({ kind, name, spec }) => [`${kind} ${name}`, spec]));
}

describe("berth config import llama-swap", () => {
  it("makes of the example in docs/groups.md what stands beside it", async () => {
    await using site = await importSite();
    const blocks = [...(await readFile(page, "utf8")).matchAll(/```yaml\n# (llama-swap|Berth)[^]*?```/g)].map(
      ([block]) => block.replace(/^```yaml\n/, "").replace(/```$/, ""),
    );
    const [theirs = "", ours = ""] = blocks;
    const file = join(site.path, "config.yaml");
    await writeFile(file, theirs);
    const { code } = await site.import(`llama-swap ${file} --yes`, { SVC_MODELS_DIR: "/models" });
    assert.equal(code, 0);
    const expected = declared({ "slots/llama-swap.yaml": ours });
    assert.equal(Object.keys(expected).length, 5);
    assert.deepEqual(declared(await site.manifests()), expected);
  });

  it("carries macros, groups, hooks, filters, containers and other servers", async () => {
    await using site = await importSite();
    const { left, stdout } = await site.import("llama-swap FIXTURES/home-server.yaml --yes", {
      FIXTURE_MODELS: join(site.path, "models"),
    });
    const manifests = await site.manifests();
    assert.deepEqual(Object.keys(manifests), [
      "groups/big.yaml",
      "models/gemma.yaml",
      "models/in-docker.yaml",
      "slots/docker-llama.yaml",
      "slots/embed.yaml",
      "slots/gemma.yaml",
      "slots/qwen-qwen3-coder.yaml",
      "slots/small.yaml",
      "slots/vllm.yaml",
    ]);
    assert.equal(
      manifests["slots/qwen-qwen3-coder.yaml"],
      `group: big
load: onDemand
aliases:
  - gpt-4o
model:
  default: qwen3-coder
  contextSize: 32768
  parallel: 2
args:
  - --flash-attn
  - "on"
probe:
  startupSeconds: 300
concurrency:
  max: 4
request:
  strip:
    - temperature
    - top_p
  set:
    temperature!: 0.7
    chat_template_kwargs!:
      enable_thinking: false
`,
    );
    assert.equal(
      manifests["slots/vllm.yaml"],
      `engine: custom
command:
  - vllm
  - serve
  - Qwen/Qwen3-8B
  - --port
  - $(PORT)
  - --served-model-name
  - qwen3
load: onDemand
idleSeconds: 1800
model:
  default: qwen3
probe:
  path: /ping
  startupSeconds: 300
timeoutSeconds:
  firstByte: 60
`,
    );
    assert.equal(
      manifests["slots/docker-llama.yaml"],
      `image: ghcr.io/ggml-org/llama.cpp:server-cuda
load: onDemand
idleSeconds: 1800
model:
  default: in-docker
  contextSize: 8192
backend: cuda
probe:
  startupSeconds: 300
`,
    );
    assert.equal(manifests["models/in-docker.yaml"], "source: file:///srv/models/in%20docker.gguf\n");
    assert.match(
      manifests["slots/gemma.yaml"] ?? "",
      /gpuLayers: 20\n {2}spill: allow\n.*\n.*\n.*\nenv:\n {2}CUDA_VISIBLE_DEVICES: "0"\n/,
    );
    assert.match(
      manifests["slots/small.yaml"] ?? "",
      /^group: big\nload: onDemand\nidleSeconds: 0\n/,
      "the default group is exclusive, too",
    );
    assert.doesNotMatch(manifests["slots/embed.yaml"] ?? "", /load|group/, "preloaded, and in no group that swaps");
    assert.doesNotMatch(stdout, /sk-fixture|hf_fixture/);
    const at = (line: number, text: string): string => `FIXTURES/home-server.yaml:${line}: ${text}`;
    const program = "all llama slots run the llama-server of PATH, or of SVC_LLAMA_SERVER: name it there";
    const stop = "Berth ends an engine by TERM, then KILL after stopSeconds; containers by the daemon";
    assert.deepEqual(
      left.filter((text) => !text.endsWith("it is not there")),
      [
        at(5, "startPort: Berth takes ports from 8081 to 8099; SVC_SLOT_PORTS narrows them"),
        at(6, "logLevel: SVC_LOG_LEVEL is Berth's"),
        at(
          7,
          "apiKeys: keys are not carried: make one for each client by `berth token create`, with SVC_AUTH_ENABLED=1",
        ),
        at(16, `/opt/llama.cpp/llama-server: ${program}`),
        at(21, "models.Qwen/Qwen3 Coder.name: slots have no name for display"),
        at(24, `models.Qwen/Qwen3 Coder.cmdStop: ${stop}`),
        at(
          29,
          "models.gemma.cmd --api-key: its value is not carried: Berth gives each engine a new key per start, and clients tokens (`berth token create`)",
        ),
        at(29, "models.gemma.cmd models/gemma.gguf: a relative path: taken as FIXTURES/models/gemma.gguf"),
        at(
          30,
          "models.gemma.env: HF_TOKEN: it looks like a secret, which no manifest holds: put it into a file of mode 0600 and name that with env.NAME.valueFrom.file",
        ),
        at(31, "models.gemma.unlisted: /v1/models lists every slot"),
        at(
          36,
          "models.vllm.cmd --api-key: it looks like a secret, and is left out: name it by a variable with env.NAME.valueFrom.file, or $(BEARER)",
        ),
        at(40, "models.vllm.timeouts: only responseHeader has a like: timeoutSeconds.firstByte"),
        at(42, "models.docker-llama.cmd --network: Berth decides how containers run; see docs/runtimes.md"),
        at(46, `models.docker-llama.cmdStop: ${stop}`),
        at(
          47,
          "models.embed.ttl: not carried: llama-swap loads the model at its start, and Berth keeps such a slot loaded",
        ),
        at(50, "groups.big.members: nobody is no model of this file, or in another group"),
        at(51, "groups.pair: it is not persistent: llama-swap unloads it for exclusive groups, Berth leaves it loaded"),
        at(
          54,
          "hooks.on_startup.preload: gemma shares a group, in which always loaded slots never leave: run `berth slot load` after the start",
        ),
        at(14, "the name Qwen/Qwen3 Coder: no slot can have it; clients call the slot qwen-qwen3-coder"),
        noServer("Qwen/Qwen3 Coder", "gemma", "small", "embed"),
      ],
    );
  });

  it("finds the image of `docker run` behind options however they are written, and prints no variable of it", async () => {
    await using site = await importSite();
    const file = join(site.path, "swap.yaml");
    const lines = [
      "-eHF_TOKEN=hf_fixture00000000 -e MODE -v/srv:/data --gpus all",
      "--read-only -dp 8000:${PORT}",
      "--quiet -itd --rm=true --name=x -e=A=b --user 1:1",
    ];
    const models = lines.map((line, at) => `  m${at}: { cmd: "docker run ${line} vllm/vllm-openai --model q" }\n`);
    await writeFile(file, `models:\n${models.join("")}`);
    const { left, stdout } = await site.import(`llama-swap ${file} --yes`);
    const manifests = await site.manifests();
    for (const name of ["m0", "m1", "m2"])
      assert.match(manifests[`slots/${name}.yaml`] ?? "", /^engine: custom\nimage: vllm\/vllm-openai\n/);
    assert.match(manifests["slots/m0.yaml"] ?? "", /source: \/srv\n {4}target: \/data\n[^]*backend: cuda\n/);
    assert.match(manifests["slots/m2.yaml"] ?? "", /env:\n {2}A: b\n/);
    assert.doesNotMatch(stdout, /hf_fixture/);
    assert.deepEqual(
      left.map((line) => line.replace(/^.*models\.(\w+)\.cmd (.*?): .*$/, "$1 $2")),
      ["m0 env HF_TOKEN", "m0 env MODE", "m2 --user"],
    );
  });

  it("makes of a matrix one group that shares the memory, with what is dear to lose as priority", async () => {
    await using site = await importSite();
    const { left } = await site.import("llama-swap FIXTURES/matrix.yaml --yes");
    const manifests = await site.manifests();
    assert.match(
      manifests["groups/llama-swap.yaml"] ?? "",
      /^budget:\n {2}device: (?:host|gpu0)\nminResidencySeconds: 0\n$/,
    );
    const priorities = ["gemma", "qwen", "voice"].map(
      (name) => /priority: (\d+)/.exec(manifests[`slots/${name}.yaml`] ?? "")?.[1],
    );
    assert.deepEqual(priorities, [undefined, "2", "50"]);
    assert.deepEqual(left.slice(0, 3), [
      "FIXTURES/matrix.yaml:6: models.voice.checkEndpoint: an engine is always probed; probe.path names the route",
      "FIXTURES/matrix.yaml:14: routing.router.settings.matrix.sets: the slots share one group, which keeps loaded what fits into the memory, in any combination",
      "FIXTURES/matrix.yaml:16: routing.scheduler: requests for a slot are served in their order",
    ]);
  });

  it("says that a time is no number, and keeps a model's name among two slots of its file", async () => {
    await using site = await importSite();
    const file = join(site.path, "swap.yaml");
    const command = "llama-server --port ${PORT} -m DIR/a.gguf".replace("DIR", site.path);
    await writeFile(
      file,
      `models:\n  A.b:\n    cmd: ${command}\n    ttl: ten\n  other:\n    cmd: ${command} -c 512\n    aliases: [a]\n`,
    );
    const { left } = await site.import(`llama-swap ${file} --yes`);
    assert.match(
      left.join("\n"),
      /^DIR\/swap\.yaml:4: models\.A\.b\.ttl: it is no whole number of seconds: the slot stays loaded once it is$/m,
    );
    const manifests = await site.manifests();
    assert.match(manifests["slots/a-b.yaml"] ?? "", /aliases:\n {2}- A\.b\nmodel:\n {2}default: a\n/);
  });

  it("makes Upstreams of peers, without their keys", async () => {
    await using site = await importSite();
    const file = join(site.path, "peers.yaml");
    await writeFile(
      file,
      `peers:
  box: { proxy: "http://192.0.2.7:8080/", models: [big, org/small] }
  Open Router:
    proxy: https://openrouter.example/api
    apiKey: \${env.ROUTER_KEY}
    models: [a]
    filters: { stripParams: top_k }
  plain: { proxy: "https://other.example", apiKey: sk-fixture-key-000000001, models: [b] }
  broken: { models: [c] }
  login: { proxy: "https://me:fixture-password@other.example", models: [d] }
`,
    );
    const { code, left, stdout } = await site.import(`llama-swap ${file} --yes`, { ROUTER_KEY: "sk-fixture-2" });
    assert.equal(code, 0);
    const bearer = (variable: string): string => `auth:\n  type: bearer\n  valueFrom:\n    env: ${variable}\n`;
    assert.deepEqual(await site.manifests(), {
      "upstreams/box.yaml": "baseUrl: http://192.0.2.7:8080/v1\nmodels:\n  - ref: big\n  - ref: org/small\n",
      "upstreams/open-router.yaml": `baseUrl: https://openrouter.example/api/v1\n${bearer("ROUTER_KEY")}models:\n  - ref: a\n`,
      "upstreams/plain.yaml": `baseUrl: https://other.example/v1\n${bearer("PLAIN_API_KEY")}models:\n  - ref: b\n`,
    });
    const key = (variable: string): string =>
      `its value is not carried: set it as ${variable} in the environment of the gateway`;
    assert.deepEqual(left, [
      `DIR/peers.yaml:5: peers.Open Router.apiKey: ${key("ROUTER_KEY")}`,
      "DIR/peers.yaml:7: peers.Open Router.filters: an Upstream has no such setting",
      `DIR/peers.yaml:8: peers.plain.apiKey: ${key("PLAIN_API_KEY")}`,
      "upstreams/broken.yaml: not written: baseUrl must be an http or https address",
      "upstreams/login.yaml: not written: baseUrl credentials belong in auth.valueFrom",
    ]);
    assert.doesNotMatch(stdout, /sk-fixture|fixture-password/);
  });

  it("makes names valid and unique, and leaves out what cannot run here", async () => {
    await using site = await importSite();
    const { left } = await site.import("llama-swap FIXTURES/plain.yaml --yes", {
      FIXTURE_API_KEY: "sk-fixture-key-000000009",
    });
    const manifests = await site.manifests();
    assert.deepEqual(Object.keys(manifests), [
      "groups/llama-swap.yaml",
      "models/qwen-2.yaml",
      "models/qwen.yaml",
      "models/speaker.yaml",
      "models/wide.yaml",
      "slots/again.yaml",
      "slots/deaf.yaml",
      "slots/fetched.yaml",
      "slots/qwen3-8b-2.yaml",
      "slots/qwen3-8b.yaml",
      "slots/tts-model.yaml",
    ]);
    assert.equal(manifests["groups/llama-swap.yaml"], "budget:\n  slots: 1\nminResidencySeconds: 0\n");
    assert.match(
      manifests["slots/qwen3-8b-2.yaml"] ?? "",
      /aliases:\n {2}- qwen3_8b\n {2}- twin\nmodel:\n {2}default: qwen-2\n/,
    );
    assert.match(
      manifests["slots/again.yaml"] ?? "",
      /default: qwen-2\n {2}contextSize: 8192\n/,
      "one file, one model",
    );
    assert.doesNotMatch(JSON.stringify(manifests), /sk-fixture/);
    const refused = (line: number, name: string, why: string): string =>
      `FIXTURES/plain.yaml:${line}: models.${name}.cmd: the model is not carried: ${why}`;
    assert.equal(left.at(-1), "FIXTURES/plain.yaml:17: /srv/no/server: it is not there");
    assert.deepEqual(left.slice(1, 13), [
      refused(9, "windows", "its command names paths of Windows"),
      refused(10, "lost", "${nothing} is no macro of this file"),
      refused(11, "secret", "${env.FIXTURE_API_KEY} looks like a secret, and its value would stand in the manifest"),
      refused(12, "circle", "its macros contain each other"),
      refused(13, "empty", "it has no command"),
      "FIXTURES/plain.yaml:14: models.text: it is no map of fields",
      "FIXTURES/plain.yaml:15: models.distant.proxy: the model is not carried: another machine serves it; models of other servers are Upstreams (docs/upstreams.md)",
      "FIXTURES/plain.yaml:17: models.deaf.cmd: the engine must listen on $(PORT), and its command does not name it: write it there",
      "FIXTURES/plain.yaml:6: the name twin: it is a name of a slot in slots/qwen3-8b-2.yaml; clients call this one again",
      "FIXTURES/plain.yaml:6: the name no name: no slot can have it; clients call the slot again",
      "FIXTURES/plain.yaml:7: the name tts: no slot can have it; clients call the slot tts-model",
      "slots/wide.yaml: not written: model.parallel must be at most 256",
    ]);
  });

  it("joins exclusive groups, of which llama-swap loads one at a time, and says where they loaded several", async () => {
    await using site = await importSite();
    const file = join(site.path, "two.yaml");
    const model = (name: string): string => `  ${name}: { cmd: "llama-server --port \${PORT} -m /srv/${name}.gguf" }\n`;
    await writeFile(
      file,
      `models:\n${["a", "b", "c", "d"].map(model).join("")}groups:\n  one: { swap: false, members: [a, b] }\n  two: { members: [c, d] }\n`,
    );
    const { left } = await site.import(`llama-swap ${file} --yes`);
    const manifests = await site.manifests();
    assert.deepEqual(
      Object.keys(manifests).filter((name) => name.startsWith("groups/")),
      ["groups/one.yaml"],
    );
    for (const name of ["a", "b", "c", "d"]) assert.match(manifests[`slots/${name}.yaml`] ?? "", /^group: one\n/);
    assert.match(manifests["groups/one.yaml"] ?? "", /device: /);
    assert.equal(
      left[0],
      "DIR/two.yaml:7: groups.one: group one keeps loaded what fits into the memory, and not just these members",
    );
  });
});
