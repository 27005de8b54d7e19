import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  configShape,
  environmentName,
  loadConfig,
  tomlName,
  type ConfigKey,
  type LoadedConfig,
} from "../../src/api/config.ts";
import type { ConfigPlaces } from "../../src/api/config-places.ts";

const person: ConfigPlaces = { isRoot: false, home: "/home/you", xdgConfigHome: undefined, xdgStateHome: undefined };
const root: ConfigPlaces = { ...person, isRoot: true };

function load(environment: Record<string, string>, file: Record<string, unknown> = {}, places = person): LoadedConfig {
  return loadConfig(environment, file, places);
}

function problems(environment: Record<string, string>, file: Record<string, unknown> = {}): string[] {
  const { config, problems: found } = load(environment, file);
  assert.equal(config, undefined, "a configuration with a problem is not used");
  return found.map(({ key, message }) => `${key}: ${message}`);
}

describe("configuration", () => {
  const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
  const receivers: readonly (readonly [what: string, more: Record<string, string>, string | undefined])[] = [
    ["from OpenTelemetry's own variable", {}, "http://collector:4318"],
    [
      "from its variable for traces, without the path",
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://traces:4318/v1/traces" },
      "http://traces:4318",
    ],
    ["from Berth's own variable before them", { SVC_TRACES_ENDPOINT: "http://own:1" }, "http://own:1"],
    ["from nowhere where OpenTelemetry is disabled", { OTEL_SDK_DISABLED: "true" }, undefined],
    ["from nowhere where it exports no traces", { OTEL_TRACES_EXPORTER: "none" }, undefined],
  ];
  for (const [what, more, receiver] of receivers)
    it(`takes the receiver of traces ${what}`, () => {
      const { config, problems: none } = load({ ...collector, ...more });
      assert.deepEqual([config?.tracesEndpoint, none], [receiver, []]);
    });

  it("warns of a receiver of OpenTelemetry that is no address", () => {
    const { warnings } = load({ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4317" });
    assert.match(warnings.join(), /OTEL_EXPORTER_OTLP_ENDPOINT is no address/);
  });

  it("takes origins and patterns of origins for pages, and refuses a text that would match no page", () => {
    const good = "https://a.example, https://*.example:8443, http://localhost:*, app://*, http://[::1]:3000, null, *";
    assert.deepEqual(load({ SVC_CORS_ORIGINS: good }).problems, []);
    for (const text of [
      "chat.example",
      "https://a.example/app",
      "https://a.*.example",
      "https://a*",
      "*.example",
      "*:*",
    ])
      assert.match(problems({ SVC_CORS_ORIGINS: text }).join(), /SVC_CORS_ORIGINS: must be origins such as/, text);
  });

  it("takes a path of a proxy, with or without a slash at its end", () => {
    assert.equal(load({ SVC_BASE_PATH: "/apps/berth/" }).config?.basePath, "/apps/berth");
    for (const text of ["berth", "/", "//berth", "/a b", "/berth?x", "https://host/berth"])
      assert.deepEqual(problems({ SVC_BASE_PATH: text }), ["SVC_BASE_PATH: must be a path such as /berth"], text);
    for (const text of ["/..", "/.", "/berth/../", "/./berth", "/berth/.."])
      assert.match(problems({ SVC_BASE_PATH: text }).join(), /^SVC_BASE_PATH: must have no segment \. or \.\./, text);
    for (const text of ["/ui", "/chat/", "/v1", "/api/berth", "/rerank"]) {
      const first = `/${text.split("/")[1]}`;
      const message = `SVC_BASE_PATH: must not begin with ${first}: Berth has that path itself`;
      assert.deepEqual(problems({ SVC_BASE_PATH: text }), [message], text);
    }
    for (const text of ["/v1x", "/berth/v1", "/...", "/.well"])
      assert.equal(load({ SVC_BASE_PATH: text }).config?.basePath, text);
  });

  it("has these defaults", () => {
    const { config, problems: none, warnings } = load({});
    assert.deepEqual([none, warnings], [[], []]);
    assert.deepEqual(config, {
      port: 8080,
      host: "0.0.0.0",
      authEnabled: false,
      trustedProxies: ["127.0.0.0/8", "::1/128"],
      operatorPort: 8079,
      operatorHost: "127.0.0.1",
      hostname: "svc.local",
      store: "files",
      runtime: "auto",
      holdSeconds: 180,
      bodyLimit: 64 * 1024 * 1024,
      chatPort: 3001,
      basePath: "",
      enginePages: [],
      enginePagesPort: 3002,
      logLevel: "info",
      unrestrictedContainers: false,
      allowProcesses: false,
      podVolumes: [],
      podLabels: [],
      accessLogPart: 1,
      tracesPart: 0.1,
      requestBodies: false,
      apiExec: false,
      allowedHosts: [],
      bufferLimit: 512 * 1024 * 1024,
      spoolLimit: 1024 * 1024 * 1024,
      drainSeconds: 30,
      pullBandwidth: 0,
      diskReserve: 1024 ** 3,
      slotPorts: { first: 8081, last: 8099 },
      readOnly: false,
      configDir: "/home/you/.config/berth",
      secretsDir: undefined,
      corsOrigins: [],
      stateDir: "/home/you/.local/state/berth",
      modelsDir: "/home/you/.local/state/berth/models",
    });
  });

  it("spells a key SVC_NAME in the environment and name in berth.toml", () => {
    assert.equal(environmentName("bodyLimit"), "SVC_BODY_LIMIT");
    assert.equal(tomlName("bodyLimit"), "body_limit");
    const names = Object.keys(configShape).filter((key): key is ConfigKey => key in configShape);
    assert.equal(new Set(names.map(environmentName)).size, names.length);
  });

  const cluster = { SVC_STORE: "kubernetes", SVC_CONFIG_DIR: "/c" };
  const places = { ...person, xdgConfigHome: "/x/config", xdgStateHome: "/x/state" };
  type Expected = Partial<LoadedConfig["config"]>;
  const taken: readonly (readonly [
    what: string,
    environment: Record<string, string>,
    expected: Expected,
    file?: Record<string, unknown>,
    places?: ConfigPlaces,
  ])[] = [
    ["processes outside a cluster", { SVC_RUNTIME: "process" }, { runtime: "process" }],
    [
      "processes in a cluster where a setting allows them",
      { ...cluster, SVC_RUNTIME: "process", SVC_ALLOW_PROCESSES: "1" },
      { runtime: "process" },
    ],
    ["secrets where they are", { SVC_CONFIG_DIR: "/c" }, { secretsDir: undefined }],
    ["secrets of a cluster below one directory alone", cluster, { secretsDir: "/c/secrets" }],
    ["another directory of secrets", { ...cluster, SVC_SECRETS_DIR: "/s" }, { secretsDir: "/s" }],
    ["loopback in auth mode", { SVC_AUTH_ENABLED: "1" }, { host: "127.0.0.1" }],
    ["another address in auth mode", { SVC_AUTH_ENABLED: "1", SVC_HOST: "0.0.0.0" }, { host: "0.0.0.0" }],
    [
      "the environment before the file",
      { SVC_PORT: "9000" },
      { port: 9000, holdSeconds: 5 },
      { port: 9001, hold_seconds: 5 },
    ],
    ["an empty variable for an absent one", { SVC_PORT: "" }, { port: 9000 }, { port: 9000 }],
    ["switches", { SVC_AUTH_ENABLED: "true", SVC_API_EXEC: "0" }, { authEnabled: true, apiExec: false }],
    ["lists", { SVC_TRUSTED_PROXIES: " 10.0.0.0/8, ,::1 " }, { trustedProxies: ["10.0.0.0/8", "::1"] }],
    ["a range", { SVC_SLOT_PORTS: "9100-9110", SVC_PORT: "0" }, { slotPorts: { first: 9100, last: 9110 }, port: 0 }],
    ["bytes", { SVC_BODY_LIMIT: "0", SVC_BUFFER_LIMIT: "512" }, { bodyLimit: 0, bufferLimit: 512 }],
    ["Ki, Mi", { SVC_BODY_LIMIT: "3Ki", SVC_BUFFER_LIMIT: "64Mi" }, { bodyLimit: 3072, bufferLimit: 67_108_864 }],
    ["Gi", { SVC_BUFFER_LIMIT: "2Gi" }, { bufferLimit: 2_147_483_648 }],
    [
      "the values of berth.toml in its own types",
      {},
      { port: 9, authEnabled: true, bodyLimit: 1024, allowedHosts: ["a"], slotPorts: { first: 9, last: 10 } },
      { port: 9, auth_enabled: true, body_limit: 1024, allowed_hosts: ["a"], slot_ports: { first: 9, last: 10 } },
    ],
    ["the system's directories for root", {}, { configDir: "/etc/berth", stateDir: "/var/lib/berth" }, {}, root],
    ["XDG's directories", {}, { configDir: "/x/config/berth", stateDir: "/x/state/berth" }, {}, places],
    ["models below the state", { SVC_STATE_DIR: "/s" }, { modelsDir: "/s/models" }],
    ["models elsewhere", { SVC_STATE_DIR: "/s", SVC_MODELS_DIR: "/m" }, { modelsDir: "/m" }],
    [
      "both directories where there is no home",
      { SVC_CONFIG_DIR: "/c", SVC_STATE_DIR: "/s" },
      { configDir: "/c", stateDir: "/s" },
      {},
      { ...person, home: undefined },
    ],
  ];
  for (const [what, environment, expected, file, at] of taken)
    it(`takes ${what}`, () => assert.partialDeepStrictEqual(load(environment, file, at).config, expected));

  it("names the origin of each value", () => {
    const { origins } = load({ SVC_PORT: "9000", SVC_CHAT_PORT: "" }, { port: 9001, hold_seconds: 5, chat_port: 1 });
    assert.deepEqual(
      [origins["port"], origins["holdSeconds"], origins["chatPort"], origins["drainSeconds"]],
      ["environment", "file", "file", "default"],
    );
  });

  const bad: readonly (readonly [name: string, message: RegExp, ...values: readonly string[]])[] = [
    ["SVC_PORT", /a whole number/, "eighty", "-1", "80.5", " 80"],
    ["SVC_PORT", /65535/, "65536"],
    ["SVC_AUTH_ENABLED", /0 or 1/, "yes"],
    ["SVC_BODY_LIMIT", /Ki, Mi or Gi/, "64MB", "-1", "1.5Gi"],
    ["SVC_STORE", /files.*kubernetes/, "redis"],
    ["SVC_RUNTIME", /process/, "podman"],
    ["SVC_LOG_LEVEL", /debug/, "loud"],
    ["SVC_STATE_DIR", /must start with "\/"/, "state"],
    ["SVC_MODELS_DIR", /must start with "\/"/, "./models"],
    ["SVC_CONFIG_DIR", /must be an absolute path/, "config"],
    ["SVC_SLOT_PORTS", /a range like 8081-8099/, "8081"],
    ["SVC_SLOT_PORTS", /ends before it begins/, "9000-8000"],
    ["SVC_SLOT_PORTS", /65535/, "0-70000"],
    ["SVC_HOLD_SECONDS", /86400/, "90000"],
    ["SVC_TRACES_ENDPOINT", /: must hold no user and no password$/, "http://u:hidden@127.0.0.1:4318"],
  ];
  it("refuses a wrong value in one line that names its key", () => {
    for (const [name, message, ...values] of bad)
      for (const value of values) {
        const [found = "", ...more] = problems({ [name]: value });
        assert.deepEqual(more, []);
        assert.match(found, new RegExp(`^${name}: .*$`));
        assert.match(found, message, `${name}=${value}`);
      }
  });

  it("reports every problem at once, and never repeats a rejected value, which may be a secret", () => {
    const found = problems({ SVC_PORT: "hunter2", SVC_STORE: "hunter2" }, { drain_seconds: "hunter2" });
    assert.equal(found.length, 3);
    assert.doesNotMatch(found.join(), /hunter2/);
  });

  it("stops at a bad value of the file even where the environment overrides it", () => {
    assert.match(problems({ SVC_PORT: "9000" }, { port: "x" }).join(), /^berth\.toml port: /);
  });

  it("stops at an unknown key that is close to a known key, and at any of berth.toml, where no other program writes", () => {
    for (const [environment, file, message] of [
      [{ SVC_PROT: "1" }, {}, "SVC_PROT: is not a setting; did you mean SVC_PORT?"],
      [{ SVC_STATEDIR: "/x" }, {}, "SVC_STATEDIR: is not a setting; did you mean SVC_STATE_DIR?"],
      [{ SVC_TOKENS: "x" }, {}, "SVC_TOKENS: is not a setting; did you mean SVC_TOKEN?"],
      [{}, { prot: 1 }, "berth.toml prot: is not a setting; did you mean port?"],
      [{}, { zzzzzzzz: 1 }, "berth.toml zzzzzzzz: is not a setting"],
      [{}, { bodyLimit: 1 }, "berth.toml bodyLimit: is not a setting; did you mean body_limit?"],
    ] as const)
      assert.deepEqual(problems(environment, file), [message]);
  });

  it("warns of other unknown keys, and ignores keys of other programs and of the command line", () => {
    const others = { PATH: "/bin", svc_port: "1", SVC_URL: "http://x", SVC_TOKEN: "y" };
    const { config, warnings } = load({ ...others, SVC_SOMETHING_ELSE_ENTIRELY: "1" });
    assert.equal(config?.port, 8080);
    assert.deepEqual(warnings, ["SVC_SOMETHING_ELSE_ENTIRELY is not a setting and is ignored"]);
  });

  it("ignores with a warning what Kubernetes injects for a Service called svc", () => {
    const injected = {
      SVC_PORT: "tcp://10.0.0.1:80",
      SVC_SERVICE_HOST: "10.0.0.1",
      SVC_SERVICE_PORT: "80",
      SVC_SERVICE_PORT_HTTP: "80",
      SVC_PORT_80_TCP: "tcp://10.0.0.1:80",
      SVC_PORT_80_TCP_ADDR: "10.0.0.1",
      SVC_PORT_53_UDP_PROTO: "udp",
    };
    const { config, warnings, origins } = load(injected);
    assert.equal(config?.port, 8080);
    assert.equal(origins["port"], "default");
    assert.deepEqual(
      warnings.map((line) => line.split(" ")[0]),
      Object.keys(injected),
    );
    for (const line of warnings) assert.match(line, /injected by Kubernetes/);
  });

  it("refuses processes in a cluster without the setting that allows them, and asks for directories without a home", () => {
    const refused = "SVC_RUNTIME: may be process in a cluster only with SVC_ALLOW_PROCESSES=1";
    assert.deepEqual(problems({ ...cluster, SVC_RUNTIME: "process" }), [refused]);
    const { config, problems: found } = load({}, {}, { ...person, home: undefined });
    assert.equal(config, undefined);
    assert.deepEqual(
      found.map(({ key }) => key),
      ["SVC_CONFIG_DIR", "SVC_STATE_DIR"],
    );
  });
});
