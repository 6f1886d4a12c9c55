from __future__ import annotations
import math
from dataclasses import dataclass, field, replace
from benchmarks.rebalance.policies.ours import engine_sample, MODEL
from benchmarks.rebalance.policies.signals import is_possible, serving, clamped
from benchmarks.rebalance.step_seconds import _model, _gpu
from plimsoll.api.precision import AUTO, cache_precision, weight_precision
from plimsoll.performance.step_costs import step_costs
from plimsoll.domain.outcomes import Split
from plimsoll.domain.latency import Slo
from plimsoll.rebalance import law
from plimsoll.rebalance.replica_load import Replica
from plimsoll.rebalance.traffic import traffic_of
from plimsoll.rebalance.tracks import Track

HOLD = 600.0
TREND = True
@dataclass
class Draft:
    tick_seconds: float = 5.0
    replica: Replica | None = None
    memory: law.Memory = field(default_factory=law.Memory)
    removed_at: float = 0.0
    lead: float = 0.0
    added_at: float = -1e9
    hold: float = HOLD
    longest: float = 0.0
    cache: dict = field(default_factory=dict)

    def samples(self, pod, view):
        out = []
        for s in pod.samples:
            if not is_possible(s): continue
            k=(pod.name,s.at)
            if k not in self.cache: self.cache[k]=engine_sample(s, view.engine.kv_tokens)
            out.append(self.cache[k])
        return out

    def __call__(self, view):
        now=view.now
        self.replica = self.replica or replica_of(view)
        for p in view.pods:
            if p.ready_since is not None: self.longest=max(self.longest,p.ready_since-p.created_at)
        if not view.has_metrics: return view.wanted
        tracks=[]
        for p in serving(view):
            s=self.samples(p,view)
            if s and s[-1].at > now-90: tracks.append(Track(p.name,s,p.ready_since))
        if not tracks: return view.wanted
        period=min((b.at-a.at for t in tracks for a,b in zip(t.samples[-3:],t.samples[-2:])), default=15)
        t=traffic_of(tracks,window_seconds=120,recent_seconds=max(30,2*period),since=self.removed_at,capacity_tokens=view.engine.kv_tokens)
        rep=replace(self.replica,slowness=self.memory.slowness)
        self.memory=law.learned(self.memory,t,rep,now)
        ready=len(serving(view)); cold=self.longest or 120.
        unknown=ready-len(tracks)
        since=[p.ready_since for p in view.pods if p.ready_since is not None]
        settled=len(since)==view.wanted and now-max(since)>45
        flow=self.memory.flow
        if (not flow or now-flow[-1][0]>=t.recent.seconds) and t.waiting<2*len(tracks):
            flow=(*(x for x in flow if now-x[0]<=max(600,2*cold)),(now,t.recent.per_second))
            self.memory=replace(self.memory,flow=flow)
        lead=law.lead_of(flow,cold+60) if TREND else 0.0
        self.lead=lead
        w=law.wish_of(t,rep,len(tracks),settled=settled,lead=lead,drain=max(60.,cold/2))
        need=w.replicas+unknown
        stuck=sum(p.ready_since is None and now-p.created_at>1.5*(self.longest or 300) for p in view.pods)
        self.memory=replace(self.memory,looks=tuple(l for l in self.memory.looks if now-l.at<=self.hold)+(law.Look(now,w.enough+unknown,t.arrivals.per_second),))
        self.last=(t,w)
        target=clamped(need+stuck,view)
        if target>view.wanted:
            if now-self.removed_at<1800 and self.removed_at>0:
                self.hold=min(1200,self.hold*1.5)
            self.added_at=now
            return target
        # removal
        if unknown or len(view.pods)!=view.wanted and not stuck: return view.wanted
        if now-self.memory.looks[0].at < self.hold-6: return view.wanted
        if now-self.added_at < self.hold: return view.wanted
        low=max(l.replicas for l in self.memory.looks)
        target=max(low,math.ceil(view.wanted/2),view.min_replicas)
        if target<view.wanted:
            self.removed_at=now
            return target
        return view.wanted

def replica_of(view):
    e=view.engine
    facts=_model(e.model); p=weight_precision(AUTO,facts); k=cache_precision(AUTO,facts,p)
    return Replica(e.kv_tokens,e.max_num_seqs,e.max_batched_tokens,step_costs(facts,p,k,_gpu(e.gpu_type),Split(e.tensor_parallel)),Slo(view.ttft_seconds,view.tpot_seconds))

def draft(_): return Draft()
