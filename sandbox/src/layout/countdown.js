(function(){
"use strict";
var clock=document.querySelector("[data-left-ms]");
if(!clock)return;
var left=Number(clock.dataset.leftMs),length=Number(clock.dataset.lengthMs)||left;
var text=clock.querySelector("b"),ring=clock.querySelector(".left");
var round=ring?Number(ring.getAttribute("stroke-dasharray")):0;
var begun=performance.now();
function two(n){return(n<10?"0":"")+n}
function show(){
var ms=Math.max(0,left-(performance.now()-begun)),s=Math.ceil(ms/1000);
text.textContent=(s>=3600?Math.floor(s/3600)+":"+two(Math.floor(s/60)%60):Math.floor(s/60))+":"+two(s%60);
if(ring)ring.setAttribute("stroke-dashoffset",String(round*(1-ms/length)));
if(ms>0){setTimeout(show,250);return}
document.querySelectorAll("button").forEach(function(b){b.disabled=true});
setTimeout(function(){location.reload()},700);
}
show();
document.addEventListener("submit",function(){
setTimeout(function(){document.querySelectorAll("button").forEach(function(b){b.disabled=true})},0);
});
window.addEventListener("pageshow",function(e){if(e.persisted)location.reload()});
})();
