/**
 * The page of a hostile engine. `attack(api)` tries what such a page could want of the dashboard at the origin `api` and of
 * its reader, and resolves with what each attempt has got; `probe()` shows that the page itself works.
 */
export const hostilePage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>A hostile engine's page</title>
<h1>Hello from the engine</h1>
<iframe name="hole" title="hole"></iframe>
<script>
"use strict";
const heard = [];
addEventListener("message", ({ data }) => heard.push(data));

/** What the attempt has got, or how the browser has refused it. */
const tried = async (act) => {
  try {
    return String((await act()) ?? "nothing");
  } catch (error) {
    return "refused: " + error.name;
  }
};

/** Resolves once it is open; rejects where it fails. */
const opened = (source) => new Promise((resolve, reject) => {
  source.onopen = () => { source.close(); resolve("opened"); };
  source.onerror = () => { source.close(); reject(new TypeError("not opened")); };
});

const stored = () => sessionStorage.getItem("berth-token") ?? localStorage.getItem("berth-token") ?? undefined;

/** What the reader's own page would send. */
const headers = () => (stored() === undefined ? {} : { authorization: "Bearer " + stored() });

/** A request for which a browser asks the other origin nothing before. */
const blind = async (url, body) =>
  (await fetch(url, { method: "POST", mode: "no-cors", credentials: "include", headers: { "content-type": "text/plain" }, body })).type;

const theft = JSON.stringify({ label: "stolen", scope: "admin" });
const chat = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "stolen" }] });

window.attack = async (api) => ({
  token: await tried(() => stored()),
  read: await tried(async () => (await fetch(api + "/api/slots", { credentials: "include", headers: headers() })).status),
  openRead: await tried(async () => (await fetch(api + "/api/slots", { credentials: "include" })).text()),
  blindRead: await tried(async () => (await fetch(api + "/api/slots", { credentials: "include", mode: "no-cors" })).text()),
  create: await tried(async () => (await fetch(api + "/api/auth/tokens", {
    method: "POST", credentials: "include", headers: { ...headers(), "content-type": "application/json" }, body: theft,
  })).status),
  blindCreate: await tried(() => blind(api + "/api/auth/tokens", theft)),
  blindUnload: await tried(() => blind(api + "/api/slots/primary/unload", "{}")),
  beacon: await tried(() => navigator.sendBeacon(api + "/api/slots/primary/unload", "{}") ? undefined : "not sent"),
  form: await tried(async () => {
    const form = document.createElement("form");
    Object.assign(form, { action: api + "/api/slots/primary/unload", method: "post", enctype: "text/plain", target: "hole" });
    document.body.append(form);
    const loaded = new Promise((resolve) => { document.querySelector("iframe").onload = resolve; });
    form.submit();
    await loaded;
    return document.querySelector("iframe").contentDocument?.body.textContent;
  }),
  chat: await tried(async () => (await fetch(api + "/v1/chat/completions", {
    method: "POST", credentials: "include", headers: { ...headers(), "content-type": "application/json" }, body: chat,
  })).status),
  blindChat: await tried(() => blind(api + "/v1/chat/completions", chat)),
  socket: await tried(() => opened(new WebSocket(api.replace("http", "ws") + "/api/events"))),
  events: await tried(() => opened(new EventSource(api + "/api/events", { withCredentials: true }))),
  frame: await tried(async () => {
    const frame = document.createElement("iframe");
    frame.title = "dashboard";
    const loaded = new Promise((resolve) => { frame.onload = resolve; });
    frame.src = api + "/";
    document.body.append(frame);
    await loaded;
    return frame.contentDocument?.title;
  }),
  script: await tried(async () => {
    // An answer as a script: its text would show in errors, its variables in the page.
    const script = document.createElement("script");
    const ended = new Promise((resolve, reject) => { script.onload = () => resolve("ran"); script.onerror = () => reject(new TypeError("no script")); });
    script.src = api + "/api/slots";
    document.body.append(script);
    return await ended;
  }),
  opener: await tried(() => window.opener ?? undefined),
  wideWorker: await tried(async () => (await navigator.serviceWorker.register("/upstream/primary/sw.js", { scope: "/" })).scope),
  otherWorker: await tried(async () => (await navigator.serviceWorker.register("/upstream/primary/sw.js", { scope: "/upstream/second/" })).scope),
  foreignWorker: await tried(async () => (await navigator.serviceWorker.register(api + "/sw.js", { scope: api + "/" })).scope),
});

/** What a proxy's password would open, which the browser keeps and adds by itself: the chat's addresses, redirects, other engines. */
window.further = async (api, pages) => ({
  chatRead: await tried(async () => (await fetch(api + "/chat/api/conversations", { credentials: "include" })).text()),
  chatUnload: await tried(() => blind(api + "/chat/api/slots/primary/unload", "{}")),
  chatKeep: await tried(() => blind(api + "/chat/api/conversations", JSON.stringify({ title: "stolen", messages: [] }))),
  chatAsk: await tried(() => blind(api + "/chat/v1/chat/completions", chat)),
  remove: await tried(async () => (await fetch(api + "/api/conversations", { method: "DELETE", credentials: "include" })).status),
  redirected: await tried(async () => (await fetch(api + "/upstream/primary/echo", { method: "POST", credentials: "include", body: "x" })).text()),
  unnamed: await tried(async () => (await fetch(pages + "/upstream/closed/")).status),
  api: await tried(async () => (await fetch(pages + "/api/slots", { headers: { "x-forwarded-email": "root" } })).status),
  mine: await tried(async () => (await fetch(pages + "/upstream/own/", { headers: { "x-forwarded-email": "root" } })).status),
});

/** Opens the dashboard; what it can do to it is asked of \`meddle\` once that is open. */
window.openDashboard = (api) => { window.held = window.open(api + "/"); };
window.meddle = async () => ({
  text: await tried(() => window.held.document.body.textContent),
  storage: await tried(() => window.held.sessionStorage.getItem("berth-token") ?? undefined),
  message: await tried(() => window.held.postMessage("from the engine", "*")),
  heard: heard.join(),
});

window.bake = () => {
  for (const name of ["berth-token", "authorization", "x-forwarded-email", "berth.second.a"])
    document.cookie = name + "=baked; path=/; max-age=600";
  return document.cookie;
};

window.probe = async (slot) => ({
  fetched: await tried(async () => (await (await fetch("echo?q=1", { method: "POST", body: "hello" })).json()).body),
  socket: await tried(() => opened(new WebSocket(location.origin.replace("http", "ws") + "/upstream/" + slot + "/ws"))),
  kept: await tried(() => { localStorage.setItem("mine", "1"); return localStorage.getItem("mine"); }),
  worker: await tried(async () => (await navigator.serviceWorker.register("sw.js")).scope),
});
</script></html>`;
