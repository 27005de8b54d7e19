import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { modelRecordSchema } from "../../../src/api/model.ts";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { OpenUpstreams } from "../../../src/store/state/open-upstreams.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openModelTaskStore } from "../../../src/store/state/model-tasks.ts";
import { openRemovals } from "../../../src/store/state/removals.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";

type Json = Readonly<Record<string, unknown>>;

async function send(gateway: TestGateway, method: string, path: string, body?: unknown): Promise<Response> {
  return await fetch(new URL(path, gateway.url), {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
}

async function got(gateway: TestGateway, path: string): Promise<Json> {
  const found: unknown = await (await send(gateway, "GET", path)).json();
  return isRecord(found) ? found : {};
}

async function code(answer: Promise<Response>): Promise<string> {
  return (await envelopeOf(await answer)).error.code;
}

describe("health", () => {
  const check = async (gateway: TestGateway, name: string): Promise<unknown> => {
    const { checks } = await got(gateway, "/api/health/system");
    const found = isRecord(checks) ? checks[name] : undefined;
    return isRecord(found) ? found["status"] : undefined;
  };

  it("is ok while an operator lives, and degraded within seconds of its death", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    await until("the operator is seen", async () => (await check(gateway, "operator_heartbeat")) === "ok");
    const begun = Date.now();
    await gateway.publishOperator({ heartbeat: new Date().toISOString() });
    await until("its silence is seen", async () => (await check(gateway, "operator_heartbeat")) === "degraded");
    assert.ok(Date.now() - begun < 30_000);
    assert.equal((await send(gateway, "GET", "/api/health/system")).status, 200);
  });

  it("tells that the operator keeps ending, although one lives", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    for (const [count, status] of [
      [2, "ok"],
      [3, "degraded"],
    ] as const) {
      const lastAt = new Date().toISOString();
      await gateway.publishOperator({ heartbeat: lastAt, unexpectedEnds: { count, lastAt } });
      await until(`${count} ends are known`, async () => {
        const { checks } = await got(gateway, "/api/health/system");
        const found = isRecord(checks) ? checks["operator_heartbeat"] : undefined;
        return isRecord(found) && found["unexpected_ends"] === count && found["status"] === status;
      });
    }
  });

  it("reports on the store, on slots and on the disk", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "error" } } });
    await gateway.publishOperator({ problems: [{ reason: "SourceEmpty", message: "nothing there" }] });
    await until("the problem is seen", async () => (await check(gateway, "store")) === "degraded");
    const { status, checks } = await got(gateway, "/api/health/system");
    assert.equal(status, "degraded");
    assert.ok(isRecord(checks));
    assert.deepEqual(checks["store"], { status: "degraded", reasons: ["SourceEmpty"] });
    assert.deepEqual(checks["slots"], { status: "degraded", failed: ["primary"] });
    assert.ok(isRecord(checks["disk"]) && Number(checks["disk"]["free_bytes"]) > 0);
    // What is not well is told there too, and takes nothing from being ready.
    const ready = await fetch(`${gateway.url}/readyz?verbose`);
    assert.equal(ready.status, 200);
    assert.equal(
      (await ready.text()).replace(/^\[.\]disk .*$/m, "[?]disk"),
      "[+]serving ok\n" +
        "[-]store degraded (requests are served all the same)\n" +
        "[+]operator_heartbeat ok\n" +
        "[?]disk\n" +
        "[-]slots degraded (requests are served all the same)\n" +
        "[+]conditions ok\n",
    );
    assert.equal(await (await fetch(`${gateway.url}/readyz`)).text(), "ok\n");
    await rename(gateway.stateDir, `${gateway.stateDir}-away`);
    const away = await got(gateway, "/api/health/system");
    await rename(`${gateway.stateDir}-away`, gateway.stateDir);
    assert.ok(isRecord(away["checks"]));
    assert.deepEqual(away["checks"]["disk"], { status: "degraded", free_bytes: null });
  });
});

describe("the installation", () => {
  it("has a first run, which ends once", async () => {
    const projector = { ...modelRecord("mmproj"), state: "invalid", reason: "NotAModel" } as const;
    await using gateway = await startGateway({ slots: { primary: { port: 1 } }, registry: { models: [projector] } });
    assert.deepEqual(await got(gateway, "/api/install/state"), {
      first_run: true,
      has_models: false,
      has_ready_slot: true,
    });
    for (let round = 0; round < 2; round += 1) {
      const done = await send(gateway, "POST", "/api/install/complete");
      assert.equal(done.status, 200);
      assert.deepEqual(await done.json(), { first_run: false, has_models: false, has_ready_slot: true });
    }
    assert.equal((await got(gateway, "/api/install/state"))["first_run"], false);
  });
});

describe("the reported URLs", () => {
  it("have the address that the caller used, with HTTPS where a trusted proxy says so", async () => {
    await using gateway = await startGateway();
    const { port } = gateway.running;
    const asked = (headers: Record<string, string>): Promise<Json> =>
      new Promise((resolve, reject) => {
        const options = { host: "127.0.0.1", port, path: "/api/config/urls", headers, agent: false };
        get(options, (response) => {
          void textOf(response).then((text) => {
            const found: unknown = JSON.parse(text);
            resolve(isRecord(found) ? found : {});
          }, reject);
        }).once("error", reject);
      });
    assert.deepEqual(await asked({ host: `localhost:${port}` }), {
      api: `http://localhost:${port}/v1`,
      dashboard: `http://localhost:${port}/`,
      chat: `http://localhost:${port}/chat/`,
    });
    const proxied = { host: "svc.local", "x-forwarded-proto": "https" };
    assert.deepEqual(await asked(proxied), {
      api: "https://svc.local/v1",
      dashboard: "https://svc.local/",
      chat: "https://svc.local/chat/",
    });
    assert.equal((await asked({ ...proxied, "x-forwarded-proto": "http" }))["api"], "http://svc.local/v1");
    assert.equal((await asked({ ...proxied, "x-forwarded-proto": "javascript" }))["api"], "http://svc.local/v1");
    const error: Json = await asked({ host: "evil.example" });
    assert.ok(!JSON.stringify(error).includes("/v1"), "no address is made of a name that is not ours");
  });

  it("have HTTP where the caller is not a trusted proxy", async () => {
    await using gateway = await startGateway({ env: { SVC_TRUSTED_PROXIES: "203.0.113.7" } });
    const headers = { "x-forwarded-proto": "https" };
    const found: unknown = await (await fetch(new URL("/api/config/urls", gateway.url), { headers })).json();
    assert.ok(isRecord(found));
    assert.equal(found["api"], `${gateway.url}/v1`);
  });
});

describe("the configuration", () => {
  it("is shown with the origin of each value, secrets masked", async () => {
    await using gateway = await startGateway({
      env: { HF_TOKEN: "hf_canary" },
      gateway: { configOrigins: { port: "environment" } },
    });
    const text = await (await send(gateway, "GET", "/api/config")).text();
    assert.doesNotMatch(text, /hf_canary/);
    const shown: unknown = JSON.parse(text);
    assert.ok(isRecord(shown) && isRecord(shown["settings"]));
    assert.equal(shown["read_only"], false);
    assert.deepEqual(shown["settings"]["port"], {
      value: 0,
      origin: "environment",
      environment: "SVC_PORT",
      toml: "port",
    });
    assert.deepEqual(
      Object.entries(shown["settings"]).filter(([key, setting]) => !isRecord(setting) || setting["toml"] !== key),
      [],
      "keys are snake_case, as in berth.toml",
    );
    assert.ok(isRecord(shown["settings"]["slot_ports"]));
    assert.match(String(shown["settings"]["slot_ports"]["value"]), /^\d+-\d+$/);
    assert.ok(isRecord(shown["settings"]["hold_seconds"]));
    assert.equal(shown["settings"]["hold_seconds"]["origin"], "default");
  });

  it("is validated, in its present and in a proposed form", async () => {
    await using gateway = await startGateway();
    const slots = join(gateway.stateDir, "config/slots");
    await mkdir(slots, { recursive: true });
    await writeFile(join(slots, "a.toml"), '[model]\ndefault = "m"\n');
    const validate = async (body?: unknown): Promise<unknown> =>
      await (await send(gateway, "POST", "/api/config/validate", body)).json();
    assert.deepEqual(await validate(), { valid: true, diagnostics: [] });
    await writeFile(join(slots, "a.toml"), "[model]\ndefualt = 1\n");
    const found = await validate();
    assert.ok(isRecord(found) && Array.isArray(found["diagnostics"]));
    assert.equal(found["valid"], false);
    const [first]: unknown[] = found["diagnostics"];
    assert.ok(isRecord(first));
    assert.deepEqual(
      [first["file"], first["line"], first["column"], first["path"]],
      ["slots/a.toml", 2, 1, ["model", "defualt"]],
    );
    assert.deepEqual(await validate({ files: { "slots/b.yaml": "model: {default: m}\n" } }), {
      valid: true,
      diagnostics: [],
    });
  });
});

describe("providers", () => {
  it("are written, listed and removed; a key only with authentication on", async () => {
    await using gateway = await startGateway();
    const spec = { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] };
    assert.equal((await send(gateway, "PUT", "/api/upstreams/acme", spec)).status, 201);
    assert.equal((await send(gateway, "PUT", "/api/upstreams/acme", { ...spec, retries: 2 })).status, 202);
    const file = join(gateway.stateDir, "config/upstreams/acme.toml");
    assert.equal(
      await readFile(file, "utf8"),
      'base_url = "https://x.example/v1"\nretries = 2\n\n[[models]]\nref = "a"\n',
    );
    const secret = { ...spec, auth: { type: "bearer", valueFrom: { env: "HF_TOKEN" } } };
    assert.equal(await code(send(gateway, "PUT", "/api/upstreams/acme", secret)), "auth.forbidden");
    assert.deepEqual(await got(gateway, "/api/upstreams"), { object: "list", data: [] });
    assert.equal((await send(gateway, "DELETE", "/api/upstreams/acme")).status, 202);
    assert.equal(await code(send(gateway, "DELETE", "/api/upstreams/acme")), "system.not_found");
    assert.deepEqual(await readdir(join(gateway.stateDir, "config/upstreams")), []);
  });
});

describe("a provider's address", () => {
  const spec = (baseUrl: string, more: object = {}): object => ({ baseUrl, models: [{ ref: "a" }], ...more });

  it("may be this machine's over the API only with authentication, or where the API may run code", async () => {
    const inner = [
      "http://127.0.0.1:11434/v1",
      "http://localhost:1/v1",
      "http://169.254.169.254/v1",
      "http://[::1]:1/v1",
    ];
    await using gateway = await startGateway();
    for (const baseUrl of inner) {
      const answer = await send(gateway, "PUT", "/api/upstreams/acme", spec(baseUrl));
      const { error } = await envelopeOf(answer);
      assert.equal(error.code, "auth.forbidden", baseUrl);
      assert.deepEqual(error.details, { path: ["baseUrl"], file: "upstreams/acme.toml" });
    }
    await using allowed = await startGateway({ env: { SVC_API_EXEC: "1" } });
    assert.equal((await send(allowed, "PUT", "/api/upstreams/acme", spec(inner[0] ?? ""))).status, 201);
  });

  it("may be edited where the manifest has it, and is recorded where it was written without authentication", async () => {
    const baseUrl = "http://127.0.0.1:1/v1";
    const known = { name: "acme", spec: upstreamSpecSchema.parse(spec(baseUrl)) };
    await using gateway = await startGateway({ registry: { upstreams: [known] } });
    const directory = join(gateway.stateDir, "config/upstreams");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "acme.toml"), `base_url = "${baseUrl}"\n[[models]]\nref = "a"\n`);
    assert.equal((await send(gateway, "PUT", "/api/upstreams/acme", spec(baseUrl, { retries: 2 }))).status, 202);
    const open = new OpenUpstreams(gateway.stateDir);
    assert.equal(open.has("acme", baseUrl), false, "a person wrote it");
    assert.equal((await send(gateway, "PUT", "/api/upstreams/other", spec("https://x.example/v1"))).status, 201);
    assert.equal(open.has("other", "https://x.example/v1"), true);
    assert.equal(open.has("other", "https://y.example/v1"), false);
    assert.equal((await send(gateway, "DELETE", "/api/upstreams/acme")).status, 202);
    assert.equal(await code(send(gateway, "PUT", "/api/upstreams/acme", spec(baseUrl))), "auth.forbidden", "deleted");
  });
});

describe("tokens", () => {
  it("are made, listed without their secrets and revoked", async () => {
    await using gateway = await startGateway({ env: { SVC_AUTH_ENABLED: "1" } });
    // The edge's own word makes an admin here.
    const send = async (method: string, path: string, body?: unknown): Promise<Response> =>
      await fetch(new URL(path, gateway.url), {
        method,
        headers: {
          "x-forwarded-email": "me@example.org",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    const made = await send("POST", "/api/auth/tokens", { label: "ci", scope: "v1-only" });
    assert.equal(made.status, 201);
    assert.equal(made.headers.get("cache-control"), "no-store");
    const token: unknown = await made.json();
    assert.ok(isRecord(token) && typeof token["token"] === "string" && typeof token["id"] === "string");
    const listed = await (await send("GET", "/api/auth/tokens")).text();
    assert.ok(listed.includes(token["id"]) && !listed.includes(token["token"]));
    assert.equal((await send("DELETE", `/api/auth/tokens/${token["id"]}`)).status, 204);
    assert.equal(await code(send("DELETE", `/api/auth/tokens/${token["id"]}`)), "system.not_found");
  });
});

describe("models", () => {
  it("have the backend of the slot that holds them, and none while no slot does", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1, status: { backend: "vulkan" } } } });
    const model = (ref: string): unknown => ({ ref, origin: "file", source: `file:///${ref}`, state: "available" });
    const models = ["test-model", "spare"].map((ref) => modelRecordSchema.parse(model(ref)));
    await gateway.publishRegistry({ models });
    const backendOf = async (ref: string): Promise<unknown> => {
      const found: unknown = await (await send(gateway, "GET", `/api/models/${ref}`)).json();
      return isRecord(found) && "backend" in found ? found["backend"] : "unknown model";
    };
    assert.equal(await until("it is known", async () => (await backendOf("test-model")) !== "unknown model"), true);
    assert.deepEqual([await backendOf("test-model"), await backendOf("spare")], ["vulkan", null]);
  });

  it("are removed with their files, when nothing holds them or by force", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    const file = join(gateway.stateDir, "test-model.gguf");
    await writeFile(file, "x");
    const model = modelRecordSchema.parse({
      ref: "test-model",
      origin: "file",
      source: `file://${file}`,
      state: "available",
      created: 1,
      files: [file],
    });
    await gateway.publishRegistry({ models: [model] });
    await until("the model is known", async () => (await send(gateway, "GET", "/api/models/test-model")).ok);
    assert.equal(await code(send(gateway, "DELETE", "/api/models/test-model?files=1")), "model.in_use");
    assert.equal(await code(send(gateway, "DELETE", "/api/models/test-model?force=1")), "dispatch.invalid_request");
    assert.equal(await readFile(file, "utf8"), "x");
    await gateway.publishOperator({ isSettled: true });
    await using tasks = await openModelTaskStore(documentsInFiles(gateway.stateDir));
    const removed = send(gateway, "DELETE", "/api/models/test-model?force=1&files=1");
    const task = await until("the operator is asked", () => tasks.tasks()[0]);
    assert.deepEqual(task.kind === "remove" ? [task.ref, task.files] : task.kind, ["test-model", [file]]);
    assert.equal(await readFile(file, "utf8"), "x", "the operator alone deletes files");
    await tasks.answer({ schema: 1, answers: task.id, answeredAt: new Date().toISOString(), freedBytes: 1 });
    assert.equal((await removed).status, 202);
    assert.equal(await code(send(gateway, "DELETE", "/api/models/nobody")), "model.not_found");
  });

  it("stay while a second process or a slot's projector needs their files, under whatever ref", async () => {
    const record = (ref: string, file: string): unknown => ({
      ref,
      origin: "file",
      source: `file://${file}`,
      state: "available",
      files: [file],
    });
    const spec = {
      engine: "llama",
      model: { default: "test-model", rerank: "ranker", projector: "/m/eyes.gguf" },
    } as const;
    await using gateway = await startGateway({ slots: { embed: { port: 1, rerankPort: 2, spec } } });
    const file = join(gateway.stateDir, "ranker.gguf");
    await writeFile(file, "x");
    const models = [record("ranker", file), record("same-file", file), record("eyes", "/m/eyes.gguf")];
    await gateway.publishRegistry({ models: models.map((model) => modelRecordSchema.parse(model)) });
    await until("they are known", async () => (await send(gateway, "GET", "/api/models/eyes")).ok);
    for (const ref of ["ranker", "same-file", "eyes"]) {
      assert.equal(await code(send(gateway, "DELETE", `/api/models/${ref}?files=1`)), "model.in_use", ref);
      assert.deepEqual((await got(gateway, `/api/models/${ref}`))["slots"], ["embed"]);
    }
    assert.equal(await readFile(file, "utf8"), "x");
  });

  it("are not swapped into, assigned to or written for a built-in slot whose work they cannot do", async () => {
    const spec = { engine: "llama", model: { default: "chatty" } } as const;
    await using gateway = await startGateway({ slots: { primary: { port: 1, spec } } });
    const record = {
      ref: "tiny-embed",
      origin: "file",
      source: "file:///e",
      state: "available",
      capabilities: ["embed"],
    };
    await gateway.publishRegistry({ models: [modelRecordSchema.parse(record)] });
    await until("it is known", async () => (await send(gateway, "GET", "/api/models/tiny-embed")).ok);
    for (const [method, path, body] of [
      ["POST", "/api/slots/primary/swap", { model: "tiny-embed" }],
      ["POST", "/api/slots/primary/swap", { model: "tiny-embed", write: true }],
      ["POST", "/api/models/tiny-embed/assign", { slot: "primary" }],
      ["PUT", "/api/slots/primary", { model: { default: "tiny-embed" } }],
    ] as const) {
      const answer = await send(gateway, method, path, body);
      assert.equal(answer.status, 422, path);
      const { error } = await envelopeOf(answer);
      assert.equal(error.code, "config.invalid");
      assert.match(error.message, /^slot primary chats, and tiny-embed can only embed: give it another model/);
    }
    const created = { name: "stt", model: { default: "tiny-embed" } };
    const answer = await send(gateway, "POST", "/api/slots", created);
    assert.equal(answer.status, 422);
    assert.match((await envelopeOf(answer)).error.message, /^slot stt transcribes, and tiny-embed can only embed/);
  });

  it("lose their manifest where they are declared, or leave a removal request where the manifest is gone", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    const configDir = String((await got(gateway, "/api/config"))["config_dir"]);
    const manifest = join(configDir, "models/here.toml");
    await mkdir(join(configDir, "models"), { recursive: true });
    await writeFile(manifest, 'ref = "vendor/here:free"\nsource = "file:///here.gguf"\n');
    const models = ["here", "gone"].map((name) =>
      modelRecordSchema.parse({
        ref: `vendor/${name}:free`,
        origin: "manifest",
        name,
        source: `file:///${name}.gguf`,
        state: "available",
      }),
    );
    await gateway.publishRegistry({ models });
    await until("they are known", async () => (await send(gateway, "GET", "/api/models/vendor/gone:free")).ok);
    for (const { ref } of models) assert.equal((await send(gateway, "DELETE", `/api/models/${ref}`)).status, 202);
    await assert.rejects(readFile(manifest), { code: "ENOENT" });
    await using removals = await openRemovals(gateway.stateDir);
    const asked = removals.list().map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(asked.toSorted(), ["Model gone", "Model here"]);
  });
});
