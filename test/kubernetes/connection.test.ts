import assert from "node:assert/strict";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { connect } from "../../src/kubernetes/connection.ts";
import { isInCluster } from "../../src/runtimes/kubernetes/in-cluster.ts";
import { tempDir } from "../support/temp-dir.ts";

const inPod = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };

describe("the connection to an API server", { concurrency: true }, () => {
  it("is the service account's in a Pod, and its token is read again after a refusal", async () => {
    await using dir = await tempDir();
    for (const [name, text] of Object.entries({ token: "one\n", namespace: "home", "ca.crt": "CA" }))
      await writeFile(join(dir.path, name), text);
    const found = await connect(inPod, dir.path);
    assert.deepEqual([found.server, found.namespace, found.tls], ["https://10.96.0.1:443", "home", { ca: "CA" }]);
    assert.equal(await found.authorization(false), "Bearer one");
    await writeFile(join(dir.path, "token"), "two");
    assert.equal(await found.authorization(false), "Bearer one", "kept for a minute");
    assert.equal(await found.authorization(true), "Bearer two");
    const named = await connect({ ...inPod, KUBERNETES_SERVICE_HOST: "fd00::1", POD_NAMESPACE: "other" }, dir.path);
    assert.deepEqual([named.server, named.namespace], ["https://[fd00::1]:443", "other"]);
  });

  it("names missing settings and files", async () => {
    await using dir = await tempDir();
    await assert.rejects(
      connect(inPod, dir.path),
      /service account of this Pod cannot be read.*automountServiceAccount/,
    );
    await assert.rejects(connect({}), /set KUBECONFIG, or run in a Pod/);
    const path = join(dir.path, "config");
    await assert.rejects(connect({ KUBECONFIG: path }), new RegExp(`${path} cannot be used as a kubeconfig: ENOENT`));
    await writeFile(path, "[]");
    await assert.rejects(connect({ KUBECONFIG: path }), /no mapping/);
    await writeFile(path, "clusters: []");
    await assert.rejects(connect({ KUBECONFIG: path }), /no current-context/);
    await writeFile(path, "current-context: home\ncontexts: [{name: home, context: {cluster: c, user: u}}]\n");
    await assert.rejects(connect({ KUBECONFIG: path }), /no entry c in clusters/);
  });

  it("leaves out what is missing of several files, and takes an empty KUBECONFIG for none", async () => {
    await using dir = await tempDir();
    const [missing, present] = [join(dir.path, "missing"), join(dir.path, "config")];
    const parts = ["contexts: [{name: c, context: {cluster: c, user: c}}]", "users: [{name: c, user: {token: t}}]"];
    const clusters = "clusters: [{name: c, cluster: {server: 'https://c:6443'}}]";
    await writeFile(present, ["current-context: c", clusters, ...parts, ""].join("\n"));
    assert.equal((await connect({ KUBECONFIG: `${missing}:${present}` })).server, "https://c:6443");
    await mkdir(join(dir.path, ".kube"));
    await rename(present, join(dir.path, ".kube", "config"));
    assert.equal((await connect({ KUBECONFIG: "", HOME: dir.path })).server, "https://c:6443");
    assert.equal(isInCluster({ store: "files", runtime: "auto" }, { KUBECONFIG: "" }), false);
  });

  it("is the current context's of KUBECONFIG, with files beside it, a certificate or a program for credentials", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "bin"));
    await writeFile(join(dir.path, "ca.pem"), "CA");
    const program = join(dir.path, "bin", "login");
    const credential = {
      kind: "ExecCredential",
      status: { token: "$NAME", expirationTimestamp: "2001-01-01T00:00:00Z" },
    };
    await writeFile(program, `#!/bin/sh\necho x >> ${dir.path}/calls\ncat <<END\n${JSON.stringify(credential)}\nEND\n`);
    await chmod(program, 0o755);
    const users = [
      { name: "token", user: { token: "t" } },
      { name: "basic", user: { username: "u", password: "p" } },
      { name: "cert", user: { "client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ" } },
      { name: "exec", user: { exec: { command: "bin/login", env: [{ name: "NAME", value: "from-program" }] } } },
      { name: "old", user: { "auth-provider": { name: "gcp" } } },
    ];
    const open = async (user: string, server = "https://c:6443/"): ReturnType<typeof connect> => {
      const path = join(dir.path, `${user}.json`);
      const config = {
        "current-context": "home",
        contexts: [{ name: "home", context: { cluster: "c", user, namespace: "ai" } }],
        clusters: [{ name: "c", cluster: { server, "certificate-authority": "ca.pem" } }],
        users,
      };
      await writeFile(path, JSON.stringify(config));
      return await connect({ KUBECONFIG: path });
    };
    const token = await open("token");
    assert.deepEqual([token.server, token.namespace, token.tls], ["https://c:6443", "ai", { ca: "CA" }]);
    assert.equal(await token.authorization(false), "Bearer t");
    assert.equal(await (await open("basic")).authorization(false), "Basic dTpw");
    const cert = await open("cert");
    assert.deepEqual(cert.tls, { ca: "CA", cert: "CERT", key: "KEY" });
    assert.equal(await cert.authorization(false), undefined);
    const exec = await open("exec");
    assert.equal(await exec.authorization(false), "Bearer from-program");
    const calls = async (): Promise<number> => (await readFile(join(dir.path, "calls"), "utf8")).split("\n").length - 1;
    assert.equal(await calls(), 1);
    const together = await Promise.all([false, true, false].map((isRefused) => exec.authorization(isRefused)));
    assert.deepEqual(
      [new Set(together), await calls()],
      [new Set(["Bearer from-program"]), 2],
      "one run for all three",
    );
    await writeFile(program, "#!/bin/sh\necho log in first >&2\nexit 1\n");
    await assert.rejects(exec.authorization(false), {
      name: "NoConnection",
      message: `${program}, which the kubeconfig names for credentials, failed: ${program} ended with 1: log in first`,
    });
    const failing = await Promise.allSettled([exec.authorization(false), exec.authorization(false)]);
    assert.deepEqual(
      failing.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await writeFile(program, `#!/bin/sh\necho '${JSON.stringify({ status: { token: "again" } })}'\n`);
    assert.equal(await exec.authorization(false), "Bearer again", "a failure is not kept");
    await assert.rejects(open("old"), /auth-provider .* use exec/);
    for (const server of ["http://127.0.0.1:8001", "c:6443"])
      await assert.rejects(open("token", server), { name: "NoConnection", message: /is no https:\/\/ address$/ });
  });
});
