import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandError } from "../../../src/cli/client.ts";
import { keptSettings, readEnvironment, withSettings } from "../../../src/tools/install/environment-file.ts";
import { thrownBy } from "../../support/rejection.ts";

describe("the environment file", () => {
  it("gets settings, and neither the password nor what the units and the command line name", () => {
    const names = ["SVC_ADMIN_USER", "SVC_ADMIN_PASSWORD", "SVC_CONFIG_DIR", "SVC_STATE_DIR", "SVC_URL", "SVC_TOKEN"];
    const env = Object.fromEntries([...names, "HOME", "SVC_PORT"].map((name) => [name, "1"]));
    assert.deepEqual(keptSettings({ ...env, SVC_HOST: "" }), { SVC_PORT: "1" });
  });

  it("reads as systemd reads it", () => {
    const text = "# SVC_A=no\nSVC_B=yes\nSVC_C='a b'\nSVC_D=\"c\"\n\nHF_TOKEN=t\n";
    assert.deepEqual(readEnvironment(text), { SVC_B: "yes", SVC_C: "a b", SVC_D: "c", HF_TOKEN: "t" });
    assert.deepEqual(readEnvironment(undefined), {});
    const odd = `; SVC_A=no
  # SVC_A=no
SVC_B=a # b
SVC_C = 'a # b'
SVC_D="a \\"b\\" $c"
SVC_E=a\\
b
SVC_F=a\\ b
export SVC_G=no
SVC_H=it's
SVC_I=
`;
    assert.deepEqual(readEnvironment(odd), {
      SVC_B: "a # b",
      SVC_C: "a # b",
      SVC_D: 'a "b" $c',
      SVC_E: "ab",
      SVC_F: "a b",
      SVC_H: "it's",
      SVC_I: "",
    });
  });

  it("keeps every line, and adds what it lacks", () => {
    const change = withSettings("A=1\nSVC_PORT=1", { SVC_PORT: "2", SVC_HOST: "::1", SVC_X: "a b #c" }, "restart");
    assert.deepEqual(change, {
      text: "A=1\nSVC_PORT=1\nSVC_HOST=::1\nSVC_X='a b #c'\n",
      added: ["SVC_HOST", "SVC_X"],
      kept: ["SVC_PORT"],
    });
    assert.deepEqual(readEnvironment(change.text)["SVC_X"], "a b #c");
    assert.match(withSettings(undefined, {}, "systemctl restart x").text, /^# [^]*\n# systemctl restart x\n/);
  });

  it("refuses a value that it cannot write", () => {
    assert.match(thrownBy(() => withSettings("", { SVC_X: "it's" }, ""), CommandError).message, /^SVC_X has a quote/);
  });
});
