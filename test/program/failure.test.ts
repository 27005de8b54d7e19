import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { explainStart } from "../../src/program/failure.ts";

const config = {
  host: "10.1.2.3",
  port: 8080,
  operatorHost: "10.1.2.4",
  operatorPort: 8079,
  stateDir: "/srv/my state",
  modelsDir: "/mnt/models",
};

const cases = [
  {
    failure: { code: "EADDRINUSE", syscall: "listen" },
    line: "port 8080 is taken; stop that program or set SVC_PORT to another port",
  },
  ...[
    { code: "EADDRNOTAVAIL", syscall: "listen" },
    { code: "ENOTFOUND", syscall: "getaddrinfo" },
    { code: "EAI_AGAIN", syscall: "getaddrinfo" },
  ].map((failure) => ({ failure, line: "SVC_HOST=10.1.2.3 is not an address of this machine" })),
  {
    failure: { code: "EACCES", syscall: "listen" },
    line: "port 8080 needs privileges; set SVC_PORT to a port above 1023",
  },
  {
    failure: { code: "EACCES", path: "/srv/my state/slots/a.json" },
    line:
      "no permission to write /srv/my state/slots/a.json; set SVC_STATE_DIR to a directory you own, " +
      "or make this one yours: sudo chown -R \"$USER\" '/srv/my state'",
  },
  {
    failure: { code: "EROFS" },
    line: "no permission to write /srv/my state; set SVC_STATE_DIR to a directory you own",
  },
  ...["ENOENT", "EACCES"].map((code) => ({
    failure: { code, path: "/mnt/models" },
    line: "the models directory /mnt/models cannot be made: its place cannot be written; make it, or set SVC_MODELS_DIR to another one",
  })),
  {
    failure: { code: "EEXIST", path: "/srv/my state/slots" },
    line: "/srv/my state/slots is a file, and Berth needs a directory there; move the file away",
  },
  ...["ENOSPC", "EDQUOT"].map((code) => ({
    failure: { code },
    line: "no space left for /srv/my state; make room there, or set SVC_STATE_DIR to a directory of another disk",
  })),
];

describe("explainStart", () => {
  for (const { failure, line } of cases) {
    it(`says what to do: ${line}`, () => {
      assert.equal(explainStart(Object.assign(new Error("failed"), failure), config, "SVC_PORT"), line);
    });
  }

  it("returns nothing for an unknown error, whose stack is shown", () => {
    assert.equal(explainStart(new TypeError("a mistake of ours"), config, "SVC_PORT"), undefined);
  });
});
