import { slotsInOrder } from "../index.ts";
import { slotView, type ViewContext } from "./views.ts";

/** A plain page with what there is, until the dashboard comes. Everything a person wrote is escaped. */
export function statusPage(context: ViewContext, version: string): string {
  const rows = slotsInOrder(context.index)
    .map((slot) => slotView(slot, context))
    .map(
      ({ name, state, model, port }) =>
        `<tr>${[name, state, model, port].map((cell) => `<td>${escape(cell)}</td>`).join("")}</tr>`,
    )
    .join("");
  const links = ["/v1/models", "/api/slots", "/api/models", "/api/status", "/api/health/system", "/metrics"]
    .map((path) => `<li><a href="${path}">${path}</a></li>`)
    .join("");
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Berth</title>
<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;padding:0 1rem}td,th{text-align:left;padding:.2rem 1rem .2rem 0}</style>
<h1>Berth</h1><p>version ${escape(version)}</p>
<table><tr><th>slot</th><th>state</th><th>model</th><th>port</th></tr>${rows}</table>
<ul>${links}</ul></html>
`;
}

function escape(value: unknown): string {
  const text = typeof value === "string" || typeof value === "number" ? String(value) : "–";
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
