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
import { defaultConfigDir, defaultStateDir, type ConfigPlaces } from "../../src/api/config-places.ts";

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
  it("refuses credentials in the address of a receiver of traces, without repeating them", () => {
    assert.deepEqual(problems({ SVC_TRACES_ENDPOINT: "http://u:hidden@127.0.0.1:4318" }), [
      "SVC_TRACES_ENDPOINT: must hold no user and no password",
    ]);
    assert.deepEqual(load({ SVC_TRACES_ENDPOINT: "http://127.0.0.1:4318" }).problems, []);
  });

  it("takes the receiver of traces from OpenTelemetry's own variables, unless it has its own", () => {
    const endpoint = (environment: Record<string, string>): string | undefined => {
      const { config, problems: none } = load(environment);
      assert.deepEqual(none, []);
      return config?.tracesEndpoint;
    };
    const OTEL_EXPORTER_OTLP_ENDPOINT = "http://collector:4318";
    assert.equal(endpoint({ OTEL_EXPORTER_OTLP_ENDPOINT }), "http://collector:4318");
    const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "http://traces:4318/v1/traces";
    assert.equal(endpoint({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT }), "http://traces:4318");
    assert.equal(endpoint({ OTEL_EXPORTER_OTLP_ENDPOINT, SVC_TRACES_ENDPOINT: "http://own:1" }), "http://own:1");
    assert.equal(endpoint({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: "true" }), undefined);
    assert.equal(endpoint({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER: "none" }), undefined);
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

  it("runs no processes in a cluster unless a setting allows them", () => {
    const cluster = { SVC_STORE: "kubernetes", SVC_RUNTIME: "process" };
    const refused = "SVC_RUNTIME: may be process in a cluster only with SVC_ALLOW_PROCESSES=1";
    assert.deepEqual(problems(cluster), [refused]);
    assert.equal(load({ ...cluster, SVC_ALLOW_PROCESSES: "1" }).config?.runtime, "process");
    assert.equal(load({ SVC_RUNTIME: "process" }).config?.runtime, "process");
  });

  it("reads secrets in a cluster below one directory alone, elsewhere where they are", () => {
    assert.equal(load({ SVC_CONFIG_DIR: "/c" }).config?.secretsDir, undefined);
    assert.equal(load({ SVC_CONFIG_DIR: "/c", SVC_STORE: "kubernetes" }).config?.secretsDir, "/c/secrets");
    assert.equal(load({ SVC_SECRETS_DIR: "/s", SVC_STORE: "kubernetes" }).config?.secretsDir, "/s");
  });

  it("listens on loopback in auth mode by default", () => {
    assert.equal(load({ SVC_AUTH_ENABLED: "1" }).config?.host, "127.0.0.1");
    assert.equal(load({ SVC_AUTH_ENABLED: "1", SVC_HOST: "0.0.0.0" }).config?.host, "0.0.0.0");
  });

  it("takes the environment before the file before the default, and names the origin", () => {
    const { config, origins } = load({ SVC_PORT: "9000" }, { port: 9001, hold_seconds: 5 });
    assert.equal(config?.port, 9000);
    assert.equal(config.holdSeconds, 5);
    assert.deepEqual(
      [origins["port"], origins["holdSeconds"], origins["drainSeconds"]],
      ["environment", "file", "default"],
    );
  });

  it("reads numbers, switches, lists, sizes and ranges from texts", () => {
    const { config } = load({
      SVC_PORT: "0",
      SVC_AUTH_ENABLED: "true",
      SVC_API_EXEC: "0",
      SVC_TRUSTED_PROXIES: " 10.0.0.0/8, ,::1 ",
      SVC_BODY_LIMIT: "2Mi",
      SVC_BUFFER_LIMIT: "1Gi",
      SVC_SLOT_PORTS: "9100-9110",
      SVC_RUNTIME: "process",
    });
    assert.equal(config?.port, 0);
    assert.deepEqual([config.authEnabled, config.apiExec], [true, false]);
    assert.deepEqual(config.trustedProxies, ["10.0.0.0/8", "::1"]);
    assert.deepEqual([config.bodyLimit, config.bufferLimit], [2_097_152, 1_073_741_824]);
    assert.deepEqual(config.slotPorts, { first: 9100, last: 9110 });
    assert.equal(config.runtime, "process");
  });

  const sizes: readonly (readonly [string, number])[] = [
    ["0", 0],
    ["512", 512],
    ["3Ki", 3072],
    ["64Mi", 67_108_864],
    ["2Gi", 2_147_483_648],
  ];
  for (const [text, bytes] of sizes) {
    it(`reads ${text} as ${bytes} bytes`, () => assert.equal(load({ SVC_BODY_LIMIT: text }).config?.bodyLimit, bytes));
  }

  it("takes the values of berth.toml in its own types", () => {
    const { config, origins } = load(
      {},
      { port: 9000, auth_enabled: true, body_limit: 1024, allowed_hosts: ["a"], slot_ports: { first: 9, last: 10 } },
    );
    assert.deepEqual(
      [config?.port, config?.authEnabled, config?.bodyLimit, config?.allowedHosts, config?.slotPorts],
      [9000, true, 1024, ["a"], { first: 9, last: 10 }],
    );
    assert.equal(origins["slotPorts"], "file");
  });

  it("takes an empty variable for an absent one", () => {
    const { config, origins } = load({ SVC_PORT: "", SVC_CONFIG_DIR: "" }, { port: 9000 });
    assert.equal(config?.port, 9000);
    assert.equal(config.configDir, "/home/you/.config/berth");
    assert.equal(origins["port"], "file");
  });

  const bad: readonly (readonly [name: string, value: string, message: RegExp])[] = [
    ["SVC_PORT", "eighty", /a whole number/],
    ["SVC_PORT", "65536", /65535/],
    ["SVC_PORT", "-1", /a whole number/],
    ["SVC_PORT", "80.5", /a whole number/],
    ["SVC_PORT", " 80", /a whole number/],
    ["SVC_AUTH_ENABLED", "yes", /0 or 1/],
    ["SVC_BODY_LIMIT", "64MB", /Ki, Mi or Gi/],
    ["SVC_BODY_LIMIT", "-1", /Ki, Mi or Gi/],
    ["SVC_BODY_LIMIT", "1.5Gi", /Ki, Mi or Gi/],
    ["SVC_STORE", "redis", /files.*kubernetes/],
    ["SVC_RUNTIME", "podman", /process/],
    ["SVC_LOG_LEVEL", "loud", /debug/],
    ["SVC_STATE_DIR", "state", /must start with "\/"/],
    ["SVC_MODELS_DIR", "./models", /must start with "\/"/],
    ["SVC_CONFIG_DIR", "config", /must be an absolute path/],
    ["SVC_SLOT_PORTS", "8081", /a range like 8081-8099/],
    ["SVC_SLOT_PORTS", "9000-8000", /ends before it begins/],
    ["SVC_SLOT_PORTS", "0-70000", /65535/],
    ["SVC_HOLD_SECONDS", "90000", /86400/],
  ];
  for (const [name, value, message] of bad) {
    it(`refuses ${name}=${value}, in one line`, () => {
      const found = problems({ [name]: value });
      assert.equal(found.length, 1, found.join("\n"));
      assert.match(found[0] ?? "", new RegExp(`^${name}: `));
      assert.match(found[0] ?? "", message);
      assert.doesNotMatch(found[0] ?? "", /\n/);
    });
  }

  it("reports every problem at once", () => {
    assert.equal(problems({ SVC_PORT: "x", SVC_STORE: "y" }, { drain_seconds: "z" }).length, 3);
  });

  it("never repeats a rejected value, which may be a secret", () => {
    assert.doesNotMatch(problems({ SVC_STORE: "hunter2" }, { port: "hunter2" }).join(), /hunter2/);
  });

  it("stops at a bad value of the file even where the environment overrides it", () => {
    assert.match(problems({ SVC_PORT: "9000" }, { port: "x" }).join(), /^berth\.toml port: /);
  });

  it("stops at an unknown key that is close to a known key, and names that key", () => {
    assert.deepEqual(problems({ SVC_PROT: "1" }), ["SVC_PROT: is not a setting; did you mean SVC_PORT?"]);
    assert.deepEqual(problems({ SVC_STATEDIR: "/x" }), ["SVC_STATEDIR: is not a setting; did you mean SVC_STATE_DIR?"]);
    assert.deepEqual(problems({ SVC_TOKENS: "x" }), ["SVC_TOKENS: is not a setting; did you mean SVC_TOKEN?"]);
  });

  it("warns of other unknown keys, and ignores keys of other programs", () => {
    const { config, warnings } = load({ SVC_SOMETHING_ELSE_ENTIRELY: "1", PATH: "/bin", svc_port: "1" });
    assert.equal(config?.port, 8080);
    assert.deepEqual(warnings, ["SVC_SOMETHING_ELSE_ENTIRELY is not a setting and is ignored"]);
  });

  it("knows the keys of the command line", () => {
    assert.deepEqual(load({ SVC_URL: "http://x", SVC_TOKEN: "y" }).warnings, []);
  });

  it("refuses every unknown key of berth.toml: no other program writes there", () => {
    assert.deepEqual(problems({}, { prot: 1 }), ["berth.toml prot: is not a setting; did you mean port?"]);
    assert.deepEqual(problems({}, { zzzzzzzz: 1 }), ["berth.toml zzzzzzzz: is not a setting"]);
    assert.deepEqual(problems({}, { bodyLimit: 1 }), [
      "berth.toml bodyLimit: is not a setting; did you mean body_limit?",
    ]);
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

  it("keeps state and configuration of root in the system's directories", () => {
    const { config } = load({}, {}, root);
    assert.deepEqual([config?.configDir, config?.stateDir], ["/etc/berth", "/var/lib/berth"]);
  });

  it("follows XDG, else the home directory", () => {
    const places = { ...person, xdgConfigHome: "/x/config", xdgStateHome: "/x/state" };
    assert.deepEqual([defaultConfigDir(places), defaultStateDir(places)], ["/x/config/berth", "/x/state/berth"]);
    assert.equal(load({ SVC_STATE_DIR: "/s" }).config?.modelsDir, "/s/models");
    assert.equal(load({ SVC_STATE_DIR: "/s", SVC_MODELS_DIR: "/m" }).config?.modelsDir, "/m");
  });

  it("asks for both directories where there is no home", () => {
    const homeless = { ...person, home: undefined };
    const { config, problems: found } = load({}, {}, homeless);
    assert.equal(config, undefined);
    assert.deepEqual(
      found.map(({ key }) => key),
      ["SVC_CONFIG_DIR", "SVC_STATE_DIR"],
    );
    assert.notEqual(load({ SVC_CONFIG_DIR: "/c", SVC_STATE_DIR: "/s" }, {}, homeless).config, undefined);
  });
});
