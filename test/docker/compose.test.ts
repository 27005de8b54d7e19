import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import Dockerode from "dockerode";
import { berthArchive } from "../../hack/images/berth.ts";
import { embeddedArchive } from "../../hack/images/embedded.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { endOf } from "../support/command.ts";
import { ask } from "../support/openai.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { removed } from "./patient.ts";

const root = join(import.meta.dirname, "../..");
const file = join(root, "manifests/compose/compose.yaml");
const url = "http://127.0.0.1:8080";
/** Version 2 is a part of `docker`; Debian 12 has docker-compose 1.29. */
const programs = [["docker", "compose"], ["docker-compose"]] as const;
const found = programs.find(([program, ...words]) => spawnSync(program, [...words, "version"]).status === 0);
const noCompose = found === undefined ? "there is no Docker Compose" : undefined;

async function load(api: Dockerode, archive: string): Promise<void> {
  const answer = await api.loadImage(createReadStream(archive));
  for await (const _chunk of answer) continue;
}

it("Docker alone serves a model by manifests/compose", { skip: noCompose, timeout: 600_000 }, async () => {
  await using directory = await tempDir();
  await using stack = new AsyncDisposableStack();
  const socket = testSocket();
  const api = new Dockerode({ socketPath: socket });
  const image = await berthArchive(join(directory.path, "berth.tar"));
  const embedded = await embeddedArchive(join(directory.path, "embedded.tar"));
  for (const name of ["berth.tar", "embedded.tar"]) await load(api, join(directory.path, name));
  await chmod(directory.path, 0o755);
  const place = join(directory.path, "berth");
  const env = {
    HOME: directory.path,
    DOCKER_HOST: `unix://${socket}`,
    DOCKER_SOCKET: socket,
    DOCKER_GID: String((await stat(socket)).gid),
    COMPOSE_PROJECT_NAME: `berth-${randomUUID().slice(0, 8)}`,
    BERTH_DIR: place,
    BERTH_LLAMA_IMAGE: embedded,
  };
  const [program = "", ...first] = found ?? [];
  const run = async (...words: readonly string[]) => endOf(program, [...first, "-f", file, ...words], env);
  const compose = async (...words: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...words);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const engines = async (): Promise<readonly Dockerode.ContainerInfo[]> =>
    (await api.listContainers({ all: true, filters: { label: ["dev.berth.slot=primary"] } })).filter(
      ({ Mounts: mounts }) => mounts.some(({ Source: source }) => source.startsWith(place)),
    );
  const stateOf = async (): Promise<unknown> => {
    const answer: unknown = await (await fetch(`${url}/api/slots/primary`)).json();
    return answer;
  };
  await writeTinyModel(join(place, "models/tiny.gguf"));
  stack.defer(async () => {
    for (const { Id: id } of await engines()) await removed(api.getContainer(id));
  });
  stack.defer(async () => void (await run("down", "--timeout", "5")));
  const page = await readFile(join(root, "docs/quick/docker.md"), "utf8");
  const blocks = [...page.matchAll(/```sh\n([^]*?)```/g)].map(([, block = ""]) =>
    [...block.matchAll(/^docker compose (.*?) *(?:#.*)?$/gm)].map(([, line = ""]) =>
      line.replace("exec", "exec -T").replace("qwen3-4b", "tiny").replaceAll('"', "").split(" "),
    ),
  );
  const [start = [], end = []] = blocks;
  assert.deepEqual([start.length, end.length], [4, 3]);
  const parts = async (): Promise<readonly Dockerode.ContainerInfo[]> =>
    api.listContainers({ filters: { label: [`com.docker.compose.project=${env.COMPOSE_PROJECT_NAME}`] } });
  const areHealthy = async (): Promise<boolean> =>
    (await parts()).filter(({ Status: status }) => status.includes("(healthy)")).length === 2;
  for (const words of start) {
    await compose(...words).catch(async (error: unknown) => {
      throw new Error(await compose("logs", "--no-color"), { cause: error });
    });
    if (words[0] === "ps") await until("operator and gateway are healthy", areHealthy, 60_000);
  }
  const chat = { model: "primary", messages: [{ role: "user", content: "hello" }], max_tokens: 4 };
  assert.equal((await ask(url, "/v1/chat/completions", chat))["object"], "chat.completion");
  assert.equal((await fetch("http://127.0.0.1:3001/")).status, 200, "the chat page");

  const [engine] = await engines();
  assert.ok(engine !== undefined);
  assert.equal(engine.Image, embedded);
  assert.deepEqual(new Set(engine.Ports.map(({ IP: ip }) => ip)), new Set(["127.0.0.1"]));
  for (const part of ["config/slots", "state", "models"])
    assert.equal((await stat(join(place, part))).uid, 65_532, part);
  assert.deepEqual(new Set((await parts()).map(({ Image: name }) => name)), new Set([image]));

  await compose("restart", "operator");
  await until("the next operator has taken the engine over", async () =>
    /"state":"(?:ready|idle)"/.test(JSON.stringify(await stateOf())),
  );
  await ask(url, "/v1/chat/completions", chat);
  assert.deepEqual(
    (await engines()).map(({ Id: id }) => id),
    [engine.Id],
    "the same engine serves on",
  );

  // As docs/quick/docker.md says for other machines.
  Object.assign(env, { BERTH_HOST: "0.0.0.0", BERTH_AUTH: "1" });
  await compose("up", "-d");
  await until("the gateway asks for a token", async () => (await fetch(`${url}/api/slots`)).status === 401, 60_000);
  const made = await compose(..."exec -T operator berth token create --label laptop --scope all".split(" "));
  const [token = ""] = /svc_\S+/.exec(made) ?? [];
  const asked = await fetch(`${url}/api/slots`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(asked.status, 200);

  for (const words of end) await compose(...words);
  assert.deepEqual(await engines(), []);
});
