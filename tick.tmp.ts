const bench=async(label:string)=>{ let best=1e9; for(let r=0;r<6;r++){ let n=100000; const t=performance.now(); await new Promise<void>(res=>{ const f=()=>{ if(--n===0) res(); else process.nextTick(f); }; f(); }); best=Math.min(best,(performance.now()-t)/100000*1e6); } console.log(label,best.toFixed(0),'ns'); };
await bench('bare');
for (const m of process.argv.slice(2)) { if(m==='listen') { const http=await import('node:http'); const s=http.createServer((q,r)=>r.end('x')); await new Promise<void>(r=>s.listen(0,'127.0.0.1',()=>r())); const a:any=s.address(); for(let i=0;i<2000;i++){ const x=await fetch(`http://127.0.0.1:${a.port}/`); await x.text(); } s.closeAllConnections(); s.close(); } 
else if(m==='hook'){ const h=await import('node:async_hooks'); new h.AsyncLocalStorage().run(1,()=>setTimeout(()=>{},10)); }
else if(m==='perf'){ const p=await import('node:perf_hooks'); const e=p.monitorEventLoopDelay({resolution:1000}); e.enable(); const o=new p.PerformanceObserver(()=>{}); o.observe({entryTypes:['gc']}); }
else await import(m); await bench(m); }
process.exit(0);
